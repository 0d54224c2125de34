/*
 * pause holds a pod's namespaces open. It is the first process of the pod and,
 * where the pod shares one PID namespace, the parent of every orphan in it.
 *
 * It waits for signals and does nothing else: SIGCHLD reaps whatever has ended,
 * SIGTERM and SIGINT end it with code 0.
 *
 * One of these runs for each pod for as long as the pod lives, so it is built
 * without the C library: a few kilobytes, one page of stack, no start-up work.
 * Signals are blocked and fetched with rt_sigtimedwait rather than handled: a
 * first process never receives a signal that it neither blocks nor handles,
 * and a handler would need a return trampoline, which is the library's part.
 */

#define SIGINT 2
#define SIGTERM 15
#define SIGCHLD 17
#define SIG_BLOCK 0
#define WNOHANG 1
#define MASK(signal) (1UL << ((signal) - 1))

#if defined(__x86_64__)

enum { SYS_rt_sigprocmask = 14, SYS_wait4 = 61, SYS_rt_sigtimedwait = 128, SYS_exit_group = 231 };

static long syscall4(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

#elif defined(__aarch64__)

enum { SYS_exit_group = 94, SYS_rt_sigprocmask = 135, SYS_rt_sigtimedwait = 137, SYS_wait4 = 260 };

static long syscall4(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

#else
#error "pause: no system call convention for this architecture"
#endif

void _start(void)
{
	unsigned long signals = MASK(SIGINT) | MASK(SIGTERM) | MASK(SIGCHLD);

	syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&signals, 0, sizeof signals);
	for (;;) {
		/* One SIGCHLD may stand for many children: take all there are. */
		while (syscall4(SYS_wait4, -1, 0, WNOHANG, 0) > 0)
			;
		switch (syscall4(SYS_rt_sigtimedwait, (long)&signals, 0, 0, sizeof signals)) {
		case SIGINT:
		case SIGTERM:
			syscall4(SYS_exit_group, 0, 0, 0, 0);
		}
	}
}
