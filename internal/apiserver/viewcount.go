package apiserver

// CountIndex is View's.
func (v *view) CountIndex(name, value string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drainLocked()
	ix := v.indexes[name]
	if ix == nil {
		return 0
	}
	return len(ix.groups[value])
}
