package core

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func (s *specCheck) validateVolumes(path *field.Path) {
	s.volumes = make(map[string]*corev1.VolumeSource, len(s.spec.Volumes))
	for i := range s.spec.Volumes {
		v, p := &s.spec.Volumes[i], path.Index(i)
		before := len(s.List)
		s.validateVolume(v, p)
		s.Name(p, "name", v.Name)
		if _, taken := s.volumes[v.Name]; taken {
			s.Duplicate(p, "name", v.Name)
		}
		// Mounts of a volume that is wrong itself are found wanting too.
		if len(s.List) == before {
			s.volumes[v.Name] = &v.VolumeSource
		}
		if claim := v.PersistentVolumeClaim; claim != nil && s.claimOfOurs(claim.ClaimName) {
			s.Invalid(p.Child("persistentVolumeClaim"), "claimName", claim.ClaimName, "must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// claimOfOurs tells whether a claim is made for an ephemeral volume of the pod.
func (s *specCheck) claimOfOurs(name string) bool {
	if s.meta == nil || s.meta.Name == "" {
		return false
	}
	for i := range s.spec.Volumes {
		if v := &s.spec.Volumes[i]; v.Ephemeral != nil && s.meta.Name+"-"+v.Name == name {
			return true
		}
	}
	return false
}

// volumeOrder is the order in which types of volumes are looked at: all but
// the first that is set are refused.
var volumeOrder = [...]string{
	"EmptyDir", "HostPath", "GitRepo", "GCEPersistentDisk", "AWSElasticBlockStore", "Secret", "NFS", "ISCSI",
	"Glusterfs", "Flocker", "PersistentVolumeClaim", "RBD", "Cinder", "CephFS", "Quobyte", "DownwardAPI", "FC",
	"FlexVolume", "ConfigMap", "AzureFile", "VsphereVolume", "PhotonPersistentDisk", "PortworxVolume", "AzureDisk",
	"StorageOS", "Projected", "ScaleIO", "CSI", "Ephemeral", "Image",
}

// volumeFieldName is how a type of volume is called in the API.
func volumeFieldName(goName string) string {
	f, _ := reflect.TypeFor[corev1.VolumeSource]().FieldByName(goName)
	name := f.Tag.Get("json")
	for i := range name {
		if name[i] == ',' {
			return name[:i]
		}
	}
	return name
}

// volumeTypes counts the types that are set; most volumes have one.
func volumeTypes(source *corev1.VolumeSource) int {
	n := 0
	for _, set := range [...]bool{
		source.EmptyDir != nil, source.HostPath != nil, source.GitRepo != nil, source.GCEPersistentDisk != nil,
		source.AWSElasticBlockStore != nil, source.Secret != nil, source.NFS != nil, source.ISCSI != nil,
		source.Glusterfs != nil, source.Flocker != nil, source.PersistentVolumeClaim != nil, source.RBD != nil,
		source.Cinder != nil, source.CephFS != nil, source.Quobyte != nil, source.DownwardAPI != nil, source.FC != nil,
		source.FlexVolume != nil, source.ConfigMap != nil, source.AzureFile != nil, source.VsphereVolume != nil,
		source.PhotonPersistentDisk != nil, source.PortworxVolume != nil, source.AzureDisk != nil,
		source.StorageOS != nil, source.Projected != nil, source.ScaleIO != nil, source.CSI != nil,
		source.Ephemeral != nil, source.Image != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

func (s *specCheck) validateVolume(v *corev1.Volume, path *field.Path) {
	source := &v.VolumeSource
	switch volumeTypes(source) {
	case 0:
		s.Required(path, "", "must specify a volume type")
		return
	case 1:
	default:
		source = s.firstVolumeType(source, path)
	}
	switch {
	case source.EmptyDir != nil:
		if negative(source.EmptyDir.SizeLimit) {
			s.Forbidden(path.Child("emptyDir"), "sizeLimit", "SizeLimit field must be a valid resource quantity")
		}
	case source.HostPath != nil:
		s.validateHostPath(source.HostPath, path.Child("hostPath"))
	case source.Secret != nil:
		p := path.Child("secret")
		s.NotEmpty(p, "secretName", source.Secret.SecretName)
		s.mode(p, "defaultMode", source.Secret.DefaultMode)
		s.validateItems(source.Secret.Items, p)
	case source.ConfigMap != nil:
		p := path.Child("configMap")
		s.NotEmpty(p, "name", source.ConfigMap.Name)
		s.mode(p, "defaultMode", source.ConfigMap.DefaultMode)
		s.validateItems(source.ConfigMap.Items, p)
	case source.DownwardAPI != nil:
		p := path.Child("downwardAPI")
		s.mode(p, "defaultMode", source.DownwardAPI.DefaultMode)
		for i := range source.DownwardAPI.Items {
			s.validateDownwardFile(&source.DownwardAPI.Items[i], p)
		}
	case source.Projected != nil:
		s.validateProjected(source.Projected, path.Child("projected"))
	case source.PersistentVolumeClaim != nil:
		s.NotEmpty(path.Child("persistentVolumeClaim"), "claimName", source.PersistentVolumeClaim.ClaimName)
	case source.CSI != nil:
		s.validateCSI(source.CSI, path.Child("csi"))
	case source.Ephemeral != nil:
		s.validateEphemeral(v, path)
	case source.Image != nil:
		p := path.Child("image")
		if source.Image.Reference == "" && s.pod {
			s.Required(p, "reference", "")
		}
		check.OneOf(&s.Errors, p, "pullPolicy", source.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	default:
		s.validateStorage(v.Name, source, path)
	}
}

// firstVolumeType refuses all types but the first and returns a source that
// has only that.
func (s *specCheck) firstVolumeType(source *corev1.VolumeSource, path *field.Path) *corev1.VolumeSource {
	first := new(corev1.VolumeSource)
	from, to, found := reflect.ValueOf(source).Elem(), reflect.ValueOf(first).Elem(), false
	for _, name := range volumeOrder {
		f := from.FieldByName(name)
		switch {
		case f.IsNil():
		case found:
			s.Forbidden(path, volumeFieldName(name), "may not specify more than 1 volume type")
		default:
			to.FieldByName(name).Set(f)
			found = true
		}
	}
	return first
}

// mode checks the permissions of a file.
func (s *specCheck) mode(path *field.Path, name string, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		s.Invalid(path, name, *mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}

func (s *specCheck) validateHostPath(source *corev1.HostPathVolumeSource, path *field.Path) {
	if source.Path == "" {
		s.Required(path, "path", "")
		return
	}
	if backsteps(source.Path) {
		s.Invalid(path, "path", source.Path, "must not contain '..'")
	}
	if source.Type != nil {
		check.Among(&s.Errors, path, "type", *source.Type,
			corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

func (s *specCheck) validateItems(items []corev1.KeyToPath, path *field.Path) {
	for i := range items {
		item, p := &items[i], path.Child("items").Index(i)
		s.NotEmpty(p, "key", item.Key)
		s.NotEmpty(p, "path", item.Path)
		validateLocalPath(&s.Errors, item.Path, p, "path", true)
		s.mode(p, "mode", item.Mode)
	}
}

// validateDownwardFile checks a file that shows something of the pod. The
// paths leave out the index, as upstream's do.
func (s *specCheck) validateDownwardFile(file *corev1.DownwardAPIVolumeFile, path *field.Path) {
	s.NotEmpty(path, "path", file.Path)
	validateLocalPath(&s.Errors, file.Path, path, "path", true)
	switch {
	case file.FieldRef != nil:
		validateFieldRef(&s.Errors, file.FieldRef, volumeFields, path.Child("fieldRef"))
		if file.ResourceFieldRef != nil {
			s.Invalid(path, "", "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case file.ResourceFieldRef != nil:
		validateResourceRef(&s.Errors, file.ResourceFieldRef, path.Child("resourceFieldRef"), true)
	default:
		s.Required(path, "", "one of fieldRef and resourceFieldRef is required")
	}
	s.mode(path, "mode", file.Mode)
}

func (s *specCheck) validateEphemeral(v *corev1.Volume, path *field.Path) {
	template := v.Ephemeral.VolumeClaimTemplate
	if template == nil {
		s.Required(path.Child("ephemeral"), "volumeClaimTemplate", "")
	} else {
		p := path.Child("ephemeral", "volumeClaimTemplate")
		if len(template.Labels) > 0 || len(template.Annotations) > 0 {
			s.Add(validation.ValidateAnnotations(template.Annotations, p.Child("metadata", "annotations")))
		}
		validateClaimSpec(&s.Errors, &template.Spec, p.Child("spec"))
	}
	// The claim is called after the pod and the volume.
	if s.meta != nil && s.meta.Name != "" && v.Name != "" {
		name := s.meta.Name + "-" + v.Name
		for _, msg := range validation.NameIsDNSSubdomain(name, false) {
			s.Invalid(path, "name", v.Name, fmt.Sprintf("PVC name %q: %v", name, msg))
		}
	}
}
