package containerd

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"os"

	imageapi "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc"
)

// importCarried sees to it that the images in the archive at path are in the
// store. They are pinned by the daemon's configuration.
func importCarried(ctx context.Context, conn *grpc.ClientConn, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	want, err := layoutImages(tar.NewReader(file))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	answer, err := imageapi.NewImagesClient(conn).List(inNamespace(ctx), &imageapi.ListImagesRequest{})
	if err != nil {
		return err
	}
	for _, image := range answer.Images {
		if want[image.Name] == image.GetTarget().GetDigest() {
			delete(want, image.Name)
		}
	}
	if len(want) == 0 {
		return nil
	}
	if _, err := file.Seek(0, 0); err != nil {
		return err
	}
	_, err = importImage(ctx, conn, file)
	return err
}

// layoutImages returns the digests of the images in an OCI image layout, by
// name.
func layoutImages(layout *tar.Reader) (map[string]string, error) {
	for {
		header, err := layout.Next()
		if err != nil {
			return nil, fmt.Errorf("no index.json: %w", err)
		}
		if header.Name != "index.json" {
			continue
		}
		var index struct {
			Manifests []struct {
				Digest      string
				Annotations map[string]string
			}
		}
		if err := json.NewDecoder(layout).Decode(&index); err != nil {
			return nil, err
		}
		images := make(map[string]string)
		for _, m := range index.Manifests {
			images[m.Annotations["io.containerd.image.name"]] = m.Digest
		}
		return images, nil
	}
}
