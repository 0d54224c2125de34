package scheduler

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ImageLocality: what a node need not pull. An image counts by its size, and
// by the share of nodes that have it, so that pods do not all crowd where one
// happens to be; small ones count nothing, large ones no more than a limit.
//
// https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
const (
	leastImage = 23 << 20   // for all containers together
	mostImage  = 1000 << 20 // for each container
)

func (n *nodeInfo) setImages(node *corev1.Node) {
	n.images = nil
	for i := range node.Status.Images {
		for _, name := range node.Status.Images[i].Names {
			if n.images == nil {
				n.images = map[string]int64{}
			}
			n.images[name] = node.Status.Images[i].SizeBytes
		}
	}
}

func (c *cluster) countImages(n *nodeInfo, sign int) {
	for name := range n.images {
		if c.images[name] += sign; c.images[name] == 0 {
			delete(c.images, name)
		}
	}
}

// imagesOf are the images of a pod's containers as nodes name them.
func imagesOf(pod *corev1.Pod) []string {
	images := make([]string, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		images = append(images, tagged(pod.Spec.InitContainers[i].Image))
	}
	for i := range pod.Spec.Containers {
		images = append(images, tagged(pod.Spec.Containers[i].Image))
	}
	return images
}

func tagged(image string) string {
	if strings.LastIndexByte(image, ':') <= strings.LastIndexByte(image, '/') && !strings.Contains(image, "@") {
		return image + ":latest"
	}
	return image
}

// imageScore is 0 to maxScore.
func (c *cluster) imageScore(p *podInfo, n *nodeInfo) int64 {
	if len(n.images) == 0 {
		return 0
	}
	var sum int64
	for _, name := range p.images {
		if size, ok := n.images[name]; ok {
			sum += int64(float64(size) * float64(c.images[name]) / float64(len(c.list)))
		}
	}
	most := int64(mostImage * len(p.images))
	if sum = min(sum, most); sum <= leastImage || most <= leastImage {
		return 0
	}
	return int64(float64(maxScore) * float64(sum-leastImage) / float64(most-leastImage))
}
