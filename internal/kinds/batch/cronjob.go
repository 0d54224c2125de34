package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func cronJob() *kinds.Kind {
	split := strategy.Counted[batchv1.CronJob]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "cronjobs"}, Kind: "CronJob", Singular: "cronjob",
		ShortNames: []string{"cj"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/cronjobs/",
		Versions:                 []kinds.Version{strategy.Version[batchv1.CronJob, batchv1.CronJobList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
