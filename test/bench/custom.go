package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// settings are a custom kind that holds what ConfigMaps do, under a schema.
const settings = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"settings.bench.example.com"},
"spec":{"group":"bench.example.com","scope":"Namespaced","names":{"plural":"settings","singular":"setting","kind":"Setting"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
"data":{"type":"object","properties":{"data":{"type":"string","minLength":1},"size":{"type":"integer","minimum":1,"default":1024}}},
"status":{"type":"object","properties":{"conditions":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],
"items":{"type":"object","required":["type"],"properties":{"type":{"type":"string"},"status":{"type":"string"}}}}}}}}}}]}}`

const settingsPath = "/apis/bench.example.com/v1/namespaces/bench/settings"

// measureCustom writes ConfigMaps and objects of a custom kind by turns, and
// says what the one costs the server in terms of the other.
func measureCustom(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return err
	}
	if err := c.do(ctx, 0, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", strings.NewReader(settings), nil); err != nil {
		return err
	}
	if err := served(ctx, c, settingsPath); err != nil {
		return err
	}
	const workers, n, turns = 16, 2000, 6 // the first turn warms up
	type kind struct {
		path string
		make func(name string) io.Reader
		cpu  map[string]float64 // milliseconds, by verb
	}
	pair := []*kind{
		{configMaps, configMap, map[string]float64{}},
		{settingsPath, func(name string) io.Reader {
			data, _ := io.ReadAll(configMap(name))
			return strings.NewReader(strings.Replace(string(data), `"v1","kind":"ConfigMap"`, `"bench.example.com/v1","kind":"Setting"`, 1))
		}, map[string]float64{}},
	}
	for turn := range turns {
		for _, k := range pair {
			for _, verb := range []string{"create", "get", "apply"} {
				r, err := drive(ctx, c, n, workers, func(w, i int) error {
					name := fmt.Sprintf("s-%d-%04d", turn, i)
					switch verb {
					case "create":
						return c.do(ctx, w, http.MethodPost, k.path, "application/json", k.make(name), nil)
					case "apply":
						return c.do(ctx, w, http.MethodPatch, k.path+"/"+name+"?fieldManager=bench&force=true", "application/apply-patch+yaml", k.make(name), nil)
					}
					return c.do(ctx, w, http.MethodGet, k.path+"/"+name, "", nil, nil)
				})
				if err != nil {
					return err
				}
				if turn > 0 {
					k.cpu[verb] += r["server_cpu_ms_each"].(float64) / (turns - 1)
				}
			}
		}
	}
	for _, verb := range []string{"create", "get", "apply"} {
		emit("custom resource: "+verb, map[string]any{
			"n": n * (turns - 1), "server_cpu_ms_each": round(pair[1].cpu[verb]), "config_map_cpu_ms_each": round(pair[0].cpu[verb]),
			"of_config_map": round(pair[1].cpu[verb] / pair[0].cpu[verb]), "target_of_config_map": 1.1,
		})
	}
	return nil
}

// served waits until the kind at path is.
func served(ctx context.Context, c *cluster, path string) error {
	for {
		err := c.do(ctx, 0, http.MethodGet, path, "", nil, nil)
		if err == nil || !strings.Contains(err.Error(), "404") {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
