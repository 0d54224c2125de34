// Package v1 is version v1 of the API group database.example.com.
package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	// Replicas counts the primary; 1 to 9.
	Replicas int32 `json:"replicas,omitempty"`
	// Version of PostgreSQL, the major number.
	Version int32 `json:"version"`
	// Storage of each server. It can grow, not shrink.
	Storage resource.Quantity `json:"storage"`
	// Parameters go into postgresql.conf.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// PostgresClusterStatus is what there is.
type PostgresClusterStatus struct {
	// ObservedGeneration is the generation of the claim that the rest of the
	// status describes.
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Replicas           int32              `json:"replicas,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas,omitempty"`
	Endpoint           string             `json:"endpoint,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a PostgresCluster, and their reasons.
const (
	Ready = "Ready"

	ReasonStarting = "Starting"
	ReasonAllReady = "AllReady"
)

// PostgresClusterList is a list of claims.
type PostgresClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PostgresCluster `json:"items"`
}
