package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const definitions = 1000

// measureDefinitions creates custom kinds, half of them in a group of their
// own, and says how long it takes until each is served and what each holds.
func measureDefinitions(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return err
	}
	if err := idle(ctx, 10*time.Second); err != nil {
		return err
	}
	resident, cpu, began := c.resident(), c.cpu(), time.Now()
	path := func(i int) string {
		return "/apis/" + definitionGroup(i) + "/v1/namespaces/bench/" + definitionPlural(i)
	}
	_, err := drive(ctx, c, definitions, 16, func(w, i int) error {
		text := strings.NewReplacer("bench.example.com", definitionGroup(i), "settings", definitionPlural(i),
			`"setting"`, fmt.Sprintf(`"setting%d"`, i), `"Setting"`, fmt.Sprintf(`"Setting%d"`, i)).Replace(settings)
		return c.do(ctx, w, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", strings.NewReader(text), nil)
	})
	if err != nil {
		return err
	}
	made := time.Since(began)
	for i := range definitions {
		if err := served(ctx, c, path(i)); err != nil {
			return err
		}
	}
	took, spent := time.Since(began), c.cpu()-cpu
	if err := idle(ctx, 20*time.Second); err != nil {
		return err
	}
	values := map[string]any{
		"n": definitions, "made_s": round(made.Seconds()), "served_s": round(took.Seconds()), "server_cpu_ms_each": round(1000 * spent.Seconds() / definitions),
		"kib_each": round((c.resident() - resident) * 1024 / definitions), "target_served_s": 10, "target_kib_each": 200,
	}
	// An object of each: what is compiled when it is first needed, is.
	if _, err := drive(ctx, c, definitions, 16, func(w, i int) error {
		object := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Setting%d","metadata":{"name":"one"},"data":{"data":"x"}}`, definitionGroup(i), i)
		return c.do(ctx, w, http.MethodPost, path(i), "application/json", strings.NewReader(object), nil)
	}); err != nil {
		return err
	}
	if err := idle(ctx, 20*time.Second); err != nil {
		return err
	}
	values["kib_each_with_an_object"] = round((c.resident() - resident) * 1024 / definitions)
	emit("definitions", values)
	return nil
}

func definitionGroup(i int) string {
	if i%2 == 0 {
		return "bench.example.com"
	}
	return fmt.Sprintf("g%d.bench.example.com", i)
}

func definitionPlural(i int) string { return fmt.Sprintf("settings%d", i) }
