package containerd

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	imageapi "github.com/containerd/containerd/api/services/images/v1"
	transferapi "github.com/containerd/containerd/api/services/transfer/v1"
	"github.com/containerd/containerd/api/types"
	transfertypes "github.com/containerd/containerd/api/types/transfer"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Images that the binary carries and that are never collected as garbage.
const (
	pauseImage = "setpoint.local/pause:1"
	demoImage  = "setpoint.local/demo:1"
	demoImage2 = "setpoint.local/demo:2"
)

// imported is the repository of imported images of which only the tag is known.
const imported = "setpoint.local/imported"

// Image is one image of a node, under all of its names.
type Image struct {
	ID      string   // digest of its configuration
	Tags    []string // names with a tag
	Digests []string // names with a digest
	Size    int64    // bytes, as stored
	Pinned  bool     // never collected as garbage
}

// errImageNotFound says that the node has no image of the given name.
var errImageNotFound = errors.New("no such image")

// inNamespace marks calls as concerning what the kubelet sees; the daemon keeps
// its clients apart by namespace, and CRI lives in this one.
func inNamespace(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
}

// ImportImage puts the images of an archive into the image store behind
// socket, ready to run, and returns their names. The archive is what `docker
// save` writes or an OCI image layout, as a tar stream, plain or compressed
// with gzip or zstd. An image with nothing but a tag, as layouts may have, gets
// the name setpoint.local/imported:TAG; one without any name is refused.
//
// It returns once the kubelet can see the images.
func ImportImage(ctx context.Context, socket string, archive io.Reader) ([]string, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return importImage(ctx, conn, archive)
}

func importImage(ctx context.Context, conn *grpc.ClientConn, archive io.Reader) ([]string, error) {
	plain, err := decompress(archive)
	if err != nil {
		return nil, err
	}
	names, err := transfer(inNamespace(ctx), conn, plain)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("import image: the archive gives its images no names: save them by name, as in `docker save NAME:TAG`")
	}
	return names, awaitVisible(ctx, conn, names)
}

// transfer streams the archive to the daemon, closes it, and returns the names
// of the images that it held.
func transfer(ctx context.Context, conn *grpc.ClientConn, archive io.ReadCloser) ([]string, error) {
	streams, cancel := context.WithCancel(ctx)
	defer cancel()
	content, err := openStream(streams, conn)
	if err != nil {
		return nil, errors.Join(err, archive.Close())
	}
	read := make(chan error, 1)
	go func() {
		err := content.copyFrom(streams, archive)
		if err != nil {
			cancel() // the daemon must not take a part for the whole
		}
		read <- errors.Join(err, archive.Close())
	}()
	names, err := request(streams, conn, content.id)
	cancel()
	// Wait until nobody reads from the archive any more, which is the caller's
	// again, but not for a reader that is stuck when the caller has given up.
	select {
	case cause := <-read:
		if cause != nil {
			return nil, cause
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return names, err
}

// request has the daemon import from a stream, and unpack so that the first
// container need not wait for it.
func request(ctx context.Context, conn *grpc.ClientConn, stream string) ([]string, error) {
	progress, err := openStream(ctx, conn)
	if err != nil {
		return nil, err
	}
	saved := make(chan []string, 1)
	go func() { saved <- savedNames(progress) }()

	source, err := pack(&transfertypes.ImageImportStream{Stream: stream})
	if err != nil {
		return nil, err
	}
	platform := &types.Platform{OS: "linux", Architecture: runtime.GOARCH}
	destination, err := pack(&transfertypes.ImageStore{
		Platforms:       []*types.Platform{platform},
		ExtraReferences: []*transfertypes.ImageReference{{Name: imported, IsPrefix: true, AllowOverwrite: true}},
		// No snapshotter is named: the daemon is configured with exactly one.
		Unpacks: []*transfertypes.UnpackConfiguration{{Platform: platform}},
	})
	if err != nil {
		return nil, err
	}
	_, err = transferapi.NewTransferClient(conn).Transfer(ctx, &transferapi.TransferRequest{
		Source: source, Destination: destination,
		Options: &transferapi.TransferOptions{ProgressStream: progress.id},
	})
	if err != nil {
		return nil, fmt.Errorf("import image for linux/%s: %s", runtime.GOARCH, status.Convert(err).Message())
	}
	return <-saved, nil
}

// savedNames reads progress until its end and returns the images stored.
func savedNames(progress *stream) []string {
	var names []string
	for {
		packed, err := progress.Recv()
		if err != nil {
			slices.Sort(names)
			return slices.Compact(names)
		}
		var p transfertypes.Progress
		if packed.UnmarshalTo(&p) == nil && p.Event == "saved" {
			names = append(names, p.Name)
		}
	}
}

// awaitVisible returns when CRI knows the images. It learns of what is put
// into the store by others from events, a little later.
func awaitVisible(ctx context.Context, conn *grpc.ClientConn, names []string) error {
	client := cri.NewImageServiceClient(conn)
	for _, name := range names {
		err := poll(ctx, func() (bool, error) {
			answer, err := client.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
			return err == nil && answer.Image != nil, err
		})
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return nil
}

// ListImages returns the images in the store behind socket, by their first name.
func ListImages(ctx context.Context, socket string) ([]Image, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return listImages(ctx, conn)
}

func listImages(ctx context.Context, conn grpc.ClientConnInterface) ([]Image, error) {
	answer, err := cri.NewImageServiceClient(conn).ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	images := make([]Image, 0, len(answer.Images))
	for _, i := range answer.Images {
		images = append(images, Image{
			ID: i.Id, Tags: i.RepoTags, Digests: i.RepoDigests, Size: int64(i.Size), Pinned: i.Pinned,
		})
	}
	slices.SortFunc(images, func(a, b Image) int { return strings.Compare(a.name(), b.name()) })
	return images, nil
}

func (i Image) name() string {
	for _, names := range [][]string{i.Tags, i.Digests} {
		if len(names) > 0 {
			return names[0]
		}
	}
	return i.ID
}

// RemoveImage removes an image by name or ID. Of an image with several tags
// only the named one is removed; with the last the image goes. Containers that
// run from it are not disturbed. The error wraps errImageNotFound if there is
// none.
func RemoveImage(ctx context.Context, socket, name string) error {
	conn, err := dial(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := cri.NewImageServiceClient(conn)
	spec := &cri.ImageSpec{Image: name}
	answer, err := client.ImageStatus(ctx, &cri.ImageStatusRequest{Image: spec})
	if err != nil {
		return err
	}
	if answer.Image == nil {
		return fmt.Errorf("%s: %w", name, errImageNotFound)
	}
	tags := answer.Image.RepoTags
	full := qualified(name)
	if !slices.Contains(tags, full) || len(tags) == 1 {
		_, err := client.RemoveImage(ctx, &cri.RemoveImageRequest{Image: spec})
		return err
	}
	_, err = imageapi.NewImagesClient(conn).Delete(inNamespace(ctx), &imageapi.DeleteImageRequest{Name: full, Sync: true})
	if err != nil && status.Code(err) != codes.NotFound {
		return err
	}
	return poll(ctx, func() (bool, error) {
		answer, err := client.ImageStatus(ctx, &cri.ImageStatusRequest{Image: spec})
		return err == nil && answer.Image == nil, err
	})
}

// qualified returns the full form of an image name, after the rules by which
// docker and the kubelet read short ones.
// See https://kubernetes.io/docs/concepts/containers/images/#image-names
func qualified(name string) string {
	host, _, slash := strings.Cut(name, "/")
	switch {
	case !slash:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		name = "docker.io/" + name
	}
	if last := name[strings.LastIndexByte(name, '/')+1:]; !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	return name
}

// decompress looks at the first bytes of an archive to see how it is compressed.
func decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, maxChunk)
	head, err := b.Peek(4)
	switch {
	case len(head) == 0 && errors.Is(err, io.EOF):
		return nil, errors.New("import image: the archive is empty")
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("read image archive: %w", err)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}
