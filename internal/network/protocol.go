package network

import (
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Protocol is the number that packets carry for a protocol of the API, which
// is TCP unless it says otherwise.
func Protocol(p corev1.Protocol) uint8 {
	switch p {
	case corev1.ProtocolUDP:
		return unix.IPPROTO_UDP
	case corev1.ProtocolSCTP:
		return unix.IPPROTO_SCTP
	}
	return unix.IPPROTO_TCP
}
