package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

// What the two kinds of bindings have in common.

func defaultBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if role.APIGroup == "" {
		role.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		if s := &subjects[i]; s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func bindingColumns[P kinds.Object](parts func(P) (rbacv1.RoleRef, []rbacv1.Subject)) []kinds.Column {
	subjects := func(name, kind, doc string) kinds.Column {
		return strategy.Wide(name, "string", doc, func(b P) any {
			var names []string
			_, list := parts(b)
			for _, s := range list {
				switch {
				case s.Kind != kind:
				case kind == rbacv1.ServiceAccountKind:
					names = append(names, s.Namespace+"/"+s.Name)
				default:
					names = append(names, s.Name)
				}
			}
			return strings.Join(names, ", ")
		})
	}
	return []kinds.Column{
		strategy.Name(),
		strategy.Column("Role", "string", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"], func(b P) any {
			role, _ := parts(b)
			return role.Kind + "/" + role.Name
		}),
		strategy.Age(),
		subjects("Users", rbacv1.UserKind, "Users in the roleBinding"),
		subjects("Groups", rbacv1.GroupKind, "Groups in the roleBinding"),
		subjects("ServiceAccounts", rbacv1.ServiceAccountKind, "ServiceAccounts in the roleBinding"),
	}
}
