package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func job() *kinds.Kind {
	split := strategy.Counted[batchv1.Job]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "jobs"}, Kind: "Job", Singular: "job",
		Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/jobs/",
		Versions:                 []kinds.Version{strategy.Version[batchv1.Job, batchv1.JobList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
