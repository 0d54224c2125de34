// Package v1alpha1 is version v1alpha1 of the API group database.example.com,
// the one before v1. Who wrote his manifests for it goes on using it: every
// object can be read and written in either version.
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PostgresCluster is a claim: so many servers, of this version, with so much
// room each.
type PostgresCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PostgresClusterSpec   `json:"spec"`
	Status PostgresClusterStatus `json:"status,omitempty"`
}

// PostgresClusterSpec is what the user wants.
type PostgresClusterSpec struct {
	// Instances is v1's replicas.
	Instances int32 `json:"instances,omitempty"`
	// PostgresVersion is v1's version, as a string.
	PostgresVersion string `json:"postgresVersion,omitempty"`
	// StorageGiB is v1's storage in GiB, rounded up.
	StorageGiB int64 `json:"storageGiB"`
	// Settings are v1's parameters.
	Settings []Setting `json:"settings,omitempty"`
}

// Setting is a line of postgresql.conf.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// PostgresClusterStatus is what there is.
type PostgresClusterStatus struct {
	// Phase is what v1's condition Ready says.
	Phase          string `json:"phase,omitempty"`
	Instances      int32  `json:"instances,omitempty"`
	ReadyInstances int32  `json:"readyInstances,omitempty"`
	Endpoint       string `json:"endpoint,omitempty"`
}

// The phases of a PostgresCluster; none before its operator has seen it.
const (
	Starting = "Starting"
	Running  = "Running"
)

// PostgresClusterList is a list of claims.
type PostgresClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PostgresCluster `json:"items"`
}
