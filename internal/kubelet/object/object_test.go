package object

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// What is held follows the server, tells its holders, and is let go.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		admin := h.Client("admin")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var mu sync.Mutex
		told := map[types.UID]int{} // guarded by mu: each object is followed by a goroutine of its own
		c := New(h.Client("system:node:n"), func(owner types.UID) {
			mu.Lock()
			defer mu.Unlock()
			told[owner]++
		})
		ref := Ref{Resource: ConfigMaps, Namespace: "default", Name: "cm"}
		c.Hold(ctx, "one", []Ref{ref})
		c.Hold(ctx, "two", []Ref{ref, {Resource: Secrets, Namespace: "default", Name: "other"}})
		synctest.Wait()
		if _, err := c.ConfigMap(ctx, "default", "cm"); !apierrors.IsNotFound(err) {
			t.Errorf("before it is there: %v", err)
		}
		clear(told)
		cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"k": "1"}}
		o, err := admin.Create(ctx, ConfigMaps, cm)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if told["one"] != 1 || told["two"] != 1 {
			t.Errorf("told %v", told)
		}
		c.Hold(ctx, "one", nil)
		cm = o.(*v1.ConfigMap).DeepCopy()
		cm.Data["k"] = "2"
		if _, err := admin.Update(ctx, ConfigMaps, cm); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got, err := c.ConfigMap(ctx, "default", "cm")
		if err != nil || got.Data["k"] != "2" {
			t.Errorf("after the change: %v %v", got, err)
		}
		if told["one"] != 1 || told["two"] != 2 {
			t.Errorf("told %v", told)
		}
		c.Hold(ctx, "two", nil)
		synctest.Wait()
		if len(c.items)+len(c.owners) != 0 {
			t.Errorf("held still: %v %v", c.items, c.owners)
		}
		// What is not held is asked for.
		if got, err = c.ConfigMap(ctx, "default", "cm"); err != nil || got.Data["k"] != "2" {
			t.Errorf("not held: %v %v", got, err)
		}
	})
}

// All objects of a field selector are held as one is: who holds them is told
// of each that comes, changes, goes, and of no others.
func TestCacheOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		admin := h.Client("admin")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		told := 0
		c := New(h.Client("system:node:n"), func(types.UID) { told++ })
		const signer = "example.com/one"
		bundle := func(signer, rest string) *certificatesv1.ClusterTrustBundle {
			return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(signer, "/", ":") + ":" + rest},
				Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: anchor}}
		}
		put := func(b *certificatesv1.ClusterTrustBundle) client.Object {
			t.Helper()
			o, err := admin.Create(ctx, TrustBundles, b)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		want := func(news int, names ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			list, err := c.TrustBundles(ctx, signer)
			var got []string
			for _, b := range list {
				got = append(got, b.Name)
			}
			if err != nil || !slices.Equal(got, names) || told != news {
				t.Errorf("got %v and %v, told %d times; want %v, %d times", got, err, told, names, news)
			}
			told = 0
		}
		put(bundle(signer, "b"))
		put(bundle("example.com/two", "b"))
		want(0, "example.com:one:b") // not held yet: asked for
		c.Hold(ctx, "one", []Ref{TrustBundlesOf(signer)})
		want(1, "example.com:one:b")
		a := put(bundle(signer, "a"))
		put(bundle("example.com/two", "a"))
		want(1, "example.com:one:a", "example.com:one:b")
		changed := a.DeepCopyObject().(*certificatesv1.ClusterTrustBundle)
		changed.Labels = map[string]string{"x": "y"}
		if _, err := admin.Update(ctx, TrustBundles, changed); err != nil {
			t.Fatal(err)
		}
		want(1, "example.com:one:a", "example.com:one:b")
		if err := admin.Delete(ctx, TrustBundles, "", "example.com:one:b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want(1, "example.com:one:a")
		if got, err := c.TrustBundle(ctx, "example.com:one:a"); err != nil || got.Labels["x"] != "y" {
			t.Errorf("by its name: %v, %v", got, err)
		}
	})
}

// anchor is a certificate that a bundle may hold.
var anchor = func() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}()
