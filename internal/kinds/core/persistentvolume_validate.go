package core

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-v1/

func validatePersistentVolume(v *corev1.PersistentVolume) field.ErrorList {
	var c check.Errors
	ValidatePersistentVolumeSpec(&c, &v.Spec, v.Name, false, field.NewPath("spec"))
	return c.List
}

// ValidatePersistentVolumeSpec checks a volume. One that is inline, in a
// VolumeAttachment, has no claim and so nothing that a claim asks for.
func ValidatePersistentVolumeSpec(c *check.Errors, spec *corev1.PersistentVolumeSpec, name string, inline bool, at *field.Path) {
	if inline {
		notInline(c, spec, at)
	} else {
		validateVolumeOffer(c, spec, at)
	}
	validateVolumeAffinity(c, spec, at)
	validateVolumeSource(c, spec, name, at)
	if h := spec.HostPath; h != nil && path.Clean(h.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		c.Forbidden(at, "persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
	}
	if spec.StorageClassName != "" && !inline {
		c.Subdomain(at, "storageClassName", spec.StorageClassName)
	}
	if spec.VolumeMode != nil && !inline {
		check.Among(c, at, "volumeMode", *spec.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	if class := spec.VolumeAttributesClassName; class != nil && !inline {
		if *class == "" {
			c.Required(at, "volumeAttributesClassName", "an empty string is disallowed")
		} else {
			c.Subdomain(at, "volumeAttributesClassName", *class)
		}
		if spec.CSI == nil {
			c.Required(at, "csi", "has to be specified when using volumeAttributesClassName")
		}
	}
}

func validateVolumeOffer(c *check.Errors, spec *corev1.PersistentVolumeSpec, at *field.Path) {
	validateAccessModes(c, spec.AccessModes, at, "")
	if len(spec.Capacity) == 0 {
		c.Required(at, "capacity", "")
	} else if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		c.Add(field.ErrorList{field.NotSupported(at.Child("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage})})
	}
	for _, name := range sorted(spec.Capacity) {
		q, p := spec.Capacity[name], at.Child("capacity").Key(string(name))
		if q.Sign() < 0 {
			c.Invalid(p, "", q.String(), "must be a valid resource quantity")
		}
		if q.Sign() <= 0 {
			c.Invalid(p, "", q.String(), notPositive)
		}
	}
	check.OneOf(c, at, "persistentVolumeReclaimPolicy", spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
}

func notInline(c *check.Errors, spec *corev1.PersistentVolumeSpec, at *field.Path) {
	const detail = "may not be specified in the context of inline volumes"
	if spec.ClaimRef != nil {
		c.Forbidden(at, "claimRef", detail)
	}
	if len(spec.Capacity) > 0 {
		c.Forbidden(at, "capacity", detail)
	}
	if spec.CSI == nil {
		c.Required(at, "csi", "has to be specified in the context of inline volumes")
	}
	if spec.PersistentVolumeReclaimPolicy != "" && spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		c.Forbidden(at, "persistentVolumeReclaimPolicy", "may only be "+string(corev1.PersistentVolumeReclaimRetain)+" in the context of inline volumes")
	}
	if spec.NodeAffinity != nil {
		c.Forbidden(at, "nodeAffinity", detail)
	}
	if spec.StorageClassName != "" {
		c.Forbidden(at, "storageClassName", detail)
	}
	if spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		c.Forbidden(at, "volumeMode", "may not specify volumeMode other than Filesystem in the context of inline volumes")
	}
	if spec.VolumeAttributesClassName != nil {
		c.Forbidden(at, "volumeAttributesClassName", detail)
	}
}

func validateVolumeAffinity(c *check.Errors, spec *corev1.PersistentVolumeSpec, at *field.Path) {
	switch a := spec.NodeAffinity; {
	case a == nil && spec.Local != nil:
		c.Required(at, "nodeAffinity", "Local volume requires node affinity")
	case a == nil:
	case a.Required == nil:
		c.Required(at.Child("nodeAffinity"), "required", "must specify required node constraints")
	default:
		ValidateNodeSelector(c, a.Required, at.Child("nodeAffinity", "required"))
	}
}

// shared are the parts of a source that pods' volumes have as well.
func shared(v *corev1.PersistentVolumeSource) *corev1.VolumeSource {
	out := &corev1.VolumeSource{
		GCEPersistentDisk: v.GCEPersistentDisk, AWSElasticBlockStore: v.AWSElasticBlockStore, NFS: v.NFS, FC: v.FC,
		Flocker: v.Flocker, Quobyte: v.Quobyte, AzureDisk: v.AzureDisk, VsphereVolume: v.VsphereVolume,
		PhotonPersistentDisk: v.PhotonPersistentDisk, PortworxVolume: v.PortworxVolume,
	}
	if g := v.Glusterfs; g != nil {
		out.Glusterfs = &corev1.GlusterfsVolumeSource{EndpointsName: g.EndpointsName, Path: g.Path}
	}
	if r := v.RBD; r != nil {
		out.RBD = &corev1.RBDVolumeSource{CephMonitors: r.CephMonitors, RBDImage: r.RBDImage}
	}
	if f := v.CephFS; f != nil {
		out.CephFS = &corev1.CephFSVolumeSource{Monitors: f.Monitors}
	}
	if i := v.ISCSI; i != nil {
		out.ISCSI = &corev1.ISCSIVolumeSource{
			TargetPortal: i.TargetPortal, IQN: i.IQN, Lun: i.Lun, InitiatorName: i.InitiatorName,
			DiscoveryCHAPAuth: i.DiscoveryCHAPAuth, SessionCHAPAuth: i.SessionCHAPAuth,
		}
		if i.SecretRef != nil {
			out.ISCSI.SecretRef = &corev1.LocalObjectReference{Name: i.SecretRef.Name}
		}
	}
	if f := v.FlexVolume; f != nil {
		out.FlexVolume = &corev1.FlexVolumeSource{Driver: f.Driver, Options: f.Options}
	}
	if a := v.AzureFile; a != nil {
		out.AzureFile = &corev1.AzureFileVolumeSource{SecretName: a.SecretName, ShareName: a.ShareName}
	}
	if s := v.ScaleIO; s != nil {
		out.ScaleIO = &corev1.ScaleIOVolumeSource{Gateway: s.Gateway, System: s.System, VolumeName: s.VolumeName}
	}
	if s := v.StorageOS; s != nil {
		out.StorageOS = &corev1.StorageOSVolumeSource{VolumeName: s.VolumeName, VolumeNamespace: s.VolumeNamespace}
	}
	if v.Cinder != nil {
		out.Cinder = &corev1.CinderVolumeSource{VolumeID: v.Cinder.VolumeID}
	}
	return out
}

func validateVolumeSource(c *check.Errors, spec *corev1.PersistentVolumeSpec, name string, at *field.Path) {
	given := 0
	value := reflect.ValueOf(&spec.PersistentVolumeSource).Elem()
	for i := range value.NumField() {
		if value.Field(i).IsNil() {
			continue
		}
		if given++; given > 1 {
			c.Forbidden(at, volumeFieldName(value.Type().Field(i).Name), "may not specify more than 1 volume type")
		}
	}
	switch {
	case given == 0:
		c.Required(at, "", "must specify a volume type")
		return
	case given > 1:
		return
	}
	s := &specCheck{}
	switch {
	case spec.HostPath != nil:
		s.validateHostPath(spec.HostPath, at.Child("hostPath"))
	case spec.Local != nil:
		s.NotEmpty(at.Child("local"), "path", spec.Local.Path)
		noBacksteps(&s.Errors, spec.Local.Path, at.Child("local"), "path")
	case spec.CSI != nil:
		validatePersistentCSI(&s.Errors, spec.CSI, at.Child("csi"))
	default:
		s.validateStorage(name, shared(&spec.PersistentVolumeSource), at)
	}
	c.Add(s.List)
}

func noBacksteps(c *check.Errors, file string, at *field.Path, name string) {
	for part := range strings.SplitSeq(file, "/") {
		if part == ".." {
			c.Invalid(at, name, file, "must not contain '..'")
			return
		}
	}
}

func validatePersistentCSI(c *check.Errors, csi *corev1.CSIPersistentVolumeSource, at *field.Path) {
	ValidateDriver(c, csi.Driver, at, "driver")
	c.NotEmpty(at, "volumeHandle", csi.VolumeHandle)
	for _, ref := range [...]struct {
		name   string
		secret *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", csi.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", csi.ControllerExpandSecretRef},
		{"nodePublishSecretRef", csi.NodePublishSecretRef},
		{"nodeExpandSecretRef", csi.NodeExpandSecretRef},
		{"nodeStageSecretRef", csi.NodeStageSecretRef},
	} {
		if ref.secret == nil {
			continue
		}
		p := at.Child(ref.name)
		if ref.secret.Name == "" {
			c.Required(p, "name", "")
		} else {
			c.Subdomain(p, "name", ref.secret.Name)
		}
		if ref.secret.Namespace == "" {
			c.Required(p, "namespace", "")
		} else {
			c.Label(p, "namespace", ref.secret.Namespace)
		}
	}
}

// validatePersistentVolumeUpdate: what a volume is cannot change, for what is
// stored on it is elsewhere then.
func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	c := check.Errors{List: validatePersistentVolume(v)}
	at := field.NewPath("spec")
	now, was := v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if now.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil && now.CSI.ControllerExpandSecretRef != nil {
		csi := *now.CSI // a volume may learn how to grow
		csi.ControllerExpandSecretRef = nil
		now.CSI = &csi
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		c.Forbidden(at, "persistentvolumesource", fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(was, now)))
	}
	if !apiequality.Semantic.DeepEqual(v.Spec.VolumeMode, old.Spec.VolumeMode) {
		c.Immutable(at, "volumeMode", v.Spec.VolumeMode)
	}
	if old.Spec.NodeAffinity != nil && !apiequality.Semantic.DeepEqual(v.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		c.Invalid(at, "nodeAffinity", v.Spec.NodeAffinity, "field is immutable, except for updating from beta label to GA")
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		c.Forbidden(at, "volumeAttributesClassName", "update from non-nil value to nil is forbidden")
	}
	return c.List
}

func persistentVolumeWarnings(v, _ *corev1.PersistentVolume) []string {
	out := storageAnnotationWarnings(v.Annotations)
	if _, ok := v.Annotations[corev1.MountOptionAnnotation]; ok {
		out = append(out, `metadata.annotations[`+corev1.MountOptionAnnotation+`]: deprecated since v1.31; use "mountOptions" attribute instead`)
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	return out
}

func storageAnnotationWarnings(annotations map[string]string) []string {
	if _, ok := annotations[betaStorageClass]; ok {
		return []string{`metadata.annotations[` + betaStorageClass + `]: deprecated since v1.8; use "storageClassName" attribute instead`}
	}
	return nil
}
