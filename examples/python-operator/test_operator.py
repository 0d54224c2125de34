"""Runs the operator against the cluster of KUBECONFIG:

    /usr/bin/python3 -m unittest
"""

import os
import threading
import time
import unittest

import yaml
from kubernetes import client, config
from kubernetes.client.rest import ApiException

from operator_loop import FINALIZER, GROUP, PLURAL, VERSION, Operator

HERE = os.path.dirname(os.path.abspath(__file__))


def eventually(look):
    """Waits until look() is true; what the API server refuses counts as no."""
    deadline = time.monotonic() + 240  # only decides how long a failing test takes
    while True:
        last = None
        try:
            if look():
                return
        except ApiException as e:
            last = e
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true: {look} {last}")
        time.sleep(0.02)


def gone(read):
    try:
        read()
    except ApiException as e:
        return e.status == 404
    return False


class TestOperator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        config.load_kube_config()
        with open(os.path.join(HERE, "crd.yaml")) as f:
            crd = yaml.safe_load(f)
        definitions = client.ApiextensionsV1Api()
        try:
            definitions.create_custom_resource_definition(crd)
        except ApiException as e:
            if e.status != 409:
                raise

        def established():
            got = definitions.read_custom_resource_definition(crd["metadata"]["name"])
            return any(c.type == "Established" and c.status == "True" for c in got.status.conditions or [])

        eventually(established)
        cls.operator = Operator()
        cls.thread = threading.Thread(target=cls.operator.run)
        cls.thread.start()

    @classmethod
    def tearDownClass(cls):
        cls.operator.stop()
        cls.thread.join()

    def setUp(self):
        self.caches, self.core, self.apps = client.CustomObjectsApi(), client.CoreV1Api(), client.AppsV1Api()

    def get(self, name):
        return self.caches.get_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, name)

    def test_life(self):
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Cache", "metadata": {"name": "life"}, "spec": {"size": "64Mi"}}
        made = self.caches.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, body)
        self.assertEqual(made["spec"]["replicas"], 1, "the schema's default")
        eventually(lambda: self.get("life").get("status", {}).get("observedGeneration") == 1)
        self.assertIn(FINALIZER, self.get("life")["metadata"]["finalizers"])
        self.assertEqual(self.core.read_namespaced_config_map("life", "default").data, {"size": "64Mi"})
        owners = self.apps.read_namespaced_deployment("life", "default").metadata.owner_references
        self.assertEqual([(o.kind, o.uid, o.controller) for o in owners], [("Cache", made["metadata"]["uid"], True)])

        self.caches.patch_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "life", {"spec": {"replicas": 2, "size": "1Gi"}})
        eventually(lambda: self.get("life")["status"]["observedGeneration"] == 2)
        self.assertEqual(self.apps.read_namespaced_deployment("life", "default").spec.replicas, 2)
        self.assertEqual(self.core.read_namespaced_config_map("life", "default").data, {"size": "1Gi"})

        self.caches.delete_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "life")
        eventually(lambda: gone(lambda: self.get("life")))
        self.assertEqual(self.core.read_namespaced_config_map("life-was", "default").data["size"], "1Gi")
        self.core.delete_namespaced_config_map("life-was", "default")
        # Only where the loops turn.
        if os.environ.get("WITH_CONTROLLERS"):
            eventually(lambda: gone(lambda: self.apps.read_namespaced_deployment("life", "default")))
            eventually(lambda: gone(lambda: self.core.read_namespaced_config_map("life", "default")))

    def test_refused(self):
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Cache", "metadata": {"name": "no"}, "spec": {"size": "big"}}
        with self.assertRaises(ApiException) as caught:
            self.caches.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, body)
        self.assertEqual(caught.exception.status, 422)
        self.assertIn("spec.size", caught.exception.body)


if __name__ == "__main__":
    unittest.main()
