#!/usr/bin/python3
"""Makes Caches true: a ConfigMap and a Deployment for each, which it owns, and
a status that says which claim it describes.

It needs nothing but the official client (Debian: python3-kubernetes):

    kubectl apply -f crd.yaml
    ./operator_loop.py
"""

import datetime
import threading

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

GROUP, VERSION, PLURAL = "storage.example.com", "v1", "caches"
FINALIZER = "storage.example.com/farewell"


class Operator:
    """Looks at every Cache whenever it changes. `run` returns after `stop`."""

    def __init__(self, api=None):
        self.caches = client.CustomObjectsApi(api)
        self.core = client.CoreV1Api(api)
        self.apps = client.AppsV1Api(api)
        self.stopped = threading.Event()

    def stop(self):
        self.stopped.set()

    def run(self):
        revision = None
        while not self.stopped.is_set():
            try:
                if revision is None:
                    listed = self.caches.list_cluster_custom_object(GROUP, VERSION, PLURAL)
                    for cache in listed["items"]:
                        self.look(cache)
                    revision = listed["metadata"]["resourceVersion"]
                stream = watch.Watch().stream(
                    self.caches.list_cluster_custom_object, GROUP, VERSION, PLURAL,
                    resource_version=revision, timeout_seconds=1)
                for event in stream:
                    cache = event["object"]
                    revision = cache["metadata"]["resourceVersion"]
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self.look(cache)
            except ApiException as e:
                # What a watch can no longer tell, a list can. A conflict is
                # news: look again.
                if e.status not in (409, 410, 404):
                    raise
                revision = None

    def look(self, cache):
        """Closes the difference between one Cache and what there is."""
        meta = cache["metadata"]
        finalizers = meta.get("finalizers", [])
        if "deletionTimestamp" in meta:
            if FINALIZER in finalizers:
                self.farewell(cache)
                self.finalizers(cache, [f for f in finalizers if f != FINALIZER])
            return
        if FINALIZER not in finalizers:
            self.finalizers(cache, finalizers + [FINALIZER])
            return  # the change brings us back
        self.keep_config(cache)
        deployment = self.keep_deployment(cache)
        self.report(cache, deployment)

    def finalizers(self, cache, finalizers):
        meta = cache["metadata"]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": meta["resourceVersion"]}}
        self.caches.patch_namespaced_custom_object(GROUP, VERSION, meta["namespace"], PLURAL, meta["name"], patch)

    def owned(self, cache):
        """The metadata of what a Cache owns."""
        meta = cache["metadata"]
        owner = client.V1OwnerReference(
            api_version=cache["apiVersion"], kind=cache["kind"], name=meta["name"], uid=meta["uid"],
            controller=True, block_owner_deletion=True)
        return client.V1ObjectMeta(name=meta["name"], namespace=meta["namespace"],
                                   labels={"cache": meta["name"]}, owner_references=[owner])

    def keep_config(self, cache):
        wanted = {"size": cache["spec"]["size"]}
        meta = self.owned(cache)
        try:
            got = self.core.read_namespaced_config_map(meta.name, meta.namespace)
        except ApiException as e:
            if e.status != 404:
                raise
            self.core.create_namespaced_config_map(meta.namespace, client.V1ConfigMap(metadata=meta, data=wanted))
            return
        if got.data != wanted:
            self.core.patch_namespaced_config_map(meta.name, meta.namespace, {"data": wanted})

    def keep_deployment(self, cache):
        meta, replicas = self.owned(cache), cache["spec"]["replicas"]
        try:
            got = self.apps.read_namespaced_deployment(meta.name, meta.namespace)
        except ApiException as e:
            if e.status != 404:
                raise
            container = client.V1Container(name="cache", image="setpoint.local/demo:1")
            template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=meta.labels),
                                                spec=client.V1PodSpec(containers=[container]))
            spec = client.V1DeploymentSpec(replicas=replicas, template=template,
                                           selector=client.V1LabelSelector(match_labels=meta.labels))
            return self.apps.create_namespaced_deployment(
                meta.namespace, client.V1Deployment(metadata=meta, spec=spec))
        if got.spec.replicas != replicas:
            self.apps.patch_namespaced_deployment_scale(meta.name, meta.namespace, {"spec": {"replicas": replicas}})
            got = self.apps.read_namespaced_deployment(meta.name, meta.namespace)
        return got

    def report(self, cache, deployment):
        meta, was = cache["metadata"], cache.get("status", {})
        there = (deployment.status.ready_replicas if deployment.status else None) or 0
        ready = "True" if there >= cache["spec"]["replicas"] else "False"
        before = next((c for c in was.get("conditions", []) if c["type"] == "Ready"), {})
        since = before.get("lastTransitionTime")
        if before.get("status") != ready:
            since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {
            "observedGeneration": meta["generation"],
            "replicas": there,
            "conditions": [{"type": "Ready", "status": ready, "reason": "Counted", "message": f"{there} ready",
                            "observedGeneration": meta["generation"], "lastTransitionTime": since}],
        }
        if status != was:
            self.caches.patch_namespaced_custom_object_status(
                GROUP, VERSION, meta["namespace"], PLURAL, meta["name"], {"status": status})

    def farewell(self, cache):
        """Leaves a note of what is gone, which nothing owns."""
        meta = cache["metadata"]
        note = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{meta['name']}-was", namespace=meta["namespace"]),
                                  data={"size": cache["spec"]["size"], "uid": meta["uid"]})
        try:
            self.core.create_namespaced_config_map(meta["namespace"], note)
        except ApiException as e:
            if e.status != 409:
                raise


if __name__ == "__main__":
    config.load_kube_config()
    Operator().run()
