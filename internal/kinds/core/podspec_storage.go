package core

import (
	"net"
	"path"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// validateStorage checks volumes of the storage systems that have a type of
// their own. Most were given over to CSI drivers and live on in the API only.
func (s *specCheck) validateStorage(name string, source *corev1.VolumeSource, at *field.Path) {
	switch {
	case source.GitRepo != nil:
		p := at.Child("gitRepo")
		s.NotEmpty(p, "repository", source.GitRepo.Repository)
		validateLocalPath(&s.Errors, source.GitRepo.Directory, p, "directory", false)
	case source.NFS != nil:
		p := at.Child("nfs")
		s.NotEmpty(p, "server", source.NFS.Server)
		s.NotEmpty(p, "path", source.NFS.Path)
		if !path.IsAbs(source.NFS.Path) {
			s.Invalid(p, "path", source.NFS.Path, "must be an absolute path")
		}
	case source.ISCSI != nil:
		s.validateISCSI(name, source.ISCSI, at)
	case source.FC != nil:
		s.validateFC(source.FC, at.Child("fc"))
	case source.GCEPersistentDisk != nil:
		p := at.Child("persistentDisk")
		s.NotEmpty(p, "pdName", source.GCEPersistentDisk.PDName)
		s.partition(source.GCEPersistentDisk.Partition, p)
	case source.AWSElasticBlockStore != nil:
		p := at.Child("awsElasticBlockStore")
		s.NotEmpty(p, "volumeID", source.AWSElasticBlockStore.VolumeID)
		s.partition(source.AWSElasticBlockStore.Partition, p)
	case source.Glusterfs != nil:
		p := at.Child("glusterfs")
		s.NotEmpty(p, "endpoints", source.Glusterfs.EndpointsName)
		s.NotEmpty(p, "path", source.Glusterfs.Path)
	case source.Flocker != nil:
		s.validateFlocker(source.Flocker, at.Child("flocker"))
	case source.RBD != nil:
		p := at.Child("rbd")
		if len(source.RBD.CephMonitors) == 0 {
			s.Required(p, "monitors", "")
		}
		s.NotEmpty(p, "image", source.RBD.RBDImage)
	case source.Cinder != nil:
		p := at.Child("cinder")
		s.NotEmpty(p, "volumeID", source.Cinder.VolumeID)
		if source.Cinder.SecretRef != nil {
			s.NotEmpty(p.Child("secretRef"), "name", source.Cinder.SecretRef.Name)
		}
	case source.CephFS != nil:
		if len(source.CephFS.Monitors) == 0 {
			s.Required(at.Child("cephfs"), "monitors", "")
		}
	case source.Quobyte != nil:
		s.validateQuobyte(source.Quobyte, at.Child("quobyte"))
	case source.FlexVolume != nil:
		s.validateFlex(source.FlexVolume, at.Child("flexVolume"))
	case source.AzureFile != nil:
		s.NotEmpty(at.Child("azureFile"), "secretName", source.AzureFile.SecretName)
		s.NotEmpty(at.Child("azureFile"), "shareName", source.AzureFile.ShareName)
	case source.AzureDisk != nil:
		s.validateAzureDisk(source.AzureDisk, at.Child("azureDisk"))
	case source.VsphereVolume != nil:
		s.NotEmpty(at.Child("vsphereVolume"), "volumePath", source.VsphereVolume.VolumePath)
	case source.PhotonPersistentDisk != nil:
		s.NotEmpty(at.Child("photonPersistentDisk"), "pdID", source.PhotonPersistentDisk.PdID)
	case source.PortworxVolume != nil:
		s.NotEmpty(at.Child("portworxVolume"), "volumeID", source.PortworxVolume.VolumeID)
	case source.StorageOS != nil:
		s.validateStorageOS(source.StorageOS, at.Child("storageos"))
	case source.ScaleIO != nil:
		p := at.Child("scaleIO")
		s.NotEmpty(p, "gateway", source.ScaleIO.Gateway)
		s.NotEmpty(p, "system", source.ScaleIO.System)
		s.NotEmpty(p, "volumeName", source.ScaleIO.VolumeName)
	}
}

func (s *specCheck) partition(n int32, at *field.Path) {
	if n < 0 || n > 255 {
		s.Invalid(at, "partition", n, validation.InclusiveRangeError(1, 255))
	}
}

// iscsiNames match the three forms of the name of an initiator or a target.
var iscsiNames = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
		"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
		"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
	}
})

func (s *specCheck) iscsiName(value string, at *field.Path, name string) {
	form := iscsiNames()[value[:min(3, len(value))]]
	switch {
	case form == nil:
		s.Invalid(at, name, value, "must be valid format starting with iqn, eui, or naa")
	case !form.MatchString(value):
		s.Invalid(at, name, value, "must be valid format")
	}
}

func (s *specCheck) lun(lun int32, at *field.Path) {
	if lun < 0 || lun > 255 {
		s.Invalid(at, "lun", lun, validation.InclusiveRangeError(0, 255))
	}
}

func (s *specCheck) validateISCSI(name string, source *corev1.ISCSIVolumeSource, at *field.Path) {
	p := at.Child("iscsi")
	s.NotEmpty(p, "targetPortal", source.TargetPortal)
	if source.IQN == "" {
		s.Required(p, "iqn", "")
	} else {
		s.iscsiName(source.IQN, p, "iqn")
	}
	s.lun(source.Lun, p)
	if (source.DiscoveryCHAPAuth || source.SessionCHAPAuth) && source.SecretRef == nil {
		s.Required(p, "secretRef", "")
	}
	if source.InitiatorName != nil {
		s.iscsiName(*source.InitiatorName, p, "initiatorname")
		if len(name)+len(":")+len(source.TargetPortal) > 64 {
			s.Invalid(at, "name", name, "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
		}
	}
}

func (s *specCheck) validateFC(source *corev1.FCVolumeSource, at *field.Path) {
	switch byTarget, byID := len(source.TargetWWNs) > 0, len(source.WWIDs) > 0; {
	case !byTarget && !byID:
		s.Required(at, "targetWWNs", "must specify either targetWWNs or wwids, but not both")
	case byTarget && byID:
		s.Invalid(at, "targetWWNs", source.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if len(source.TargetWWNs) > 0 {
		if source.Lun == nil {
			s.Required(at, "lun", "lun is required if targetWWNs is specified")
		} else {
			s.lun(*source.Lun, at)
		}
	}
}

func (s *specCheck) validateFlocker(source *corev1.FlockerVolumeSource, at *field.Path) {
	switch name, id := source.DatasetName != "", source.DatasetUUID != ""; {
	case !name && !id:
		s.Required(at, "", "one of datasetName and datasetUUID is required")
	case name && id:
		s.Invalid(at, "", "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(source.DatasetName, "/") {
		s.Invalid(at, "datasetName", source.DatasetName, "must not contain '/'")
	}
}

func (s *specCheck) validateQuobyte(source *corev1.QuobyteVolumeSource, at *field.Path) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case source.Registry == "":
		s.Required(at, "registry", pairs)
	case len(source.Tenant) > 64:
		s.Required(at, "tenant", "must be a UUID and may not exceed a length of 64 characters")
	default:
		for pair := range strings.SplitSeq(source.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				s.Invalid(at, "registry", source.Registry, pairs)
			}
		}
	}
	s.NotEmpty(at, "volume", source.Volume)
}

func (s *specCheck) validateFlex(source *corev1.FlexVolumeSource, at *field.Path) {
	s.NotEmpty(at, "driver", source.Driver)
	for _, key := range sorted(source.Options) {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			s.Invalid(at.Child("options").Key(key), "", key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (s *specCheck) validateAzureDisk(source *corev1.AzureDiskVolumeSource, at *field.Path) {
	s.NotEmpty(at, "diskName", source.DiskName)
	s.NotEmpty(at, "diskURI", source.DataDiskURI)
	if source.CachingMode != nil {
		check.Among(&s.Errors, at, "cachingMode", *source.CachingMode, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	if source.Kind == nil {
		return
	}
	check.Among(&s.Errors, at, "kind", *source.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
	prefix, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *source.Kind == corev1.AzureManagedDisk {
		prefix, form = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(source.DataDiskURI, prefix) {
		check.Among(&s.Errors, at, "diskURI", source.DataDiskURI, form)
	}
}

func (s *specCheck) validateStorageOS(source *corev1.StorageOSVolumeSource, at *field.Path) {
	s.Name(at, "volumeName", source.VolumeName)
	if source.VolumeNamespace != "" {
		s.Label(at, "volumeNamespace", source.VolumeNamespace)
	}
	if source.SecretRef != nil {
		s.NotEmpty(at.Child("secretRef"), "name", source.SecretRef.Name)
	}
}

// maxDriverName is how long the name of a CSI driver may be.
const maxDriverName = 63

func (s *specCheck) validateCSI(source *corev1.CSIVolumeSource, at *field.Path) {
	ValidateDriver(&s.Errors, source.Driver, at, "driver")
	if ref := source.NodePublishSecretRef; ref != nil {
		if ref.Name == "" {
			s.Required(at.Child("nodePublishSecretRef"), "name", "")
		} else {
			s.Subdomain(at, "name", ref.Name)
		}
	}
}

// ValidateDriver checks the name of a CSI driver.
func ValidateDriver(c *check.Errors, driver string, at *field.Path, name string) {
	if driver == "" {
		c.Required(at, name, "")
	}
	if len(driver) > maxDriverName {
		c.TooLong(at, name, maxDriverName)
	}
	c.Subdomain(at, name, strings.ToLower(driver))
}
