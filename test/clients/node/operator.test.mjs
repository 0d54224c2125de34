// Kubernetes' JavaScript client against the cluster of KUBECONFIG: objects of a
// kind of the server's and of a custom one, patches, a watch, and a control
// loop that gives every Greeting a ConfigMap.
//
//   npm install @kubernetes/client-node && node --test
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as k8s from '@kubernetes/client-node';

const group = 'example.org';
const version = 'v1';
const plural = 'greetings';
const namespace = 'default';
const at = { group, version, plural, namespace };

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const objects = config.makeApiClient(k8s.CustomObjectsApi);
const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);

// eventually waits until look() is true; "not found" counts as no. The deadline
// only decides how long a failing test takes.
async function eventually(look) {
  for (const deadline = Date.now() + 240_000; ; await sleep(20)) {
    try {
      if (await look()) return;
    } catch (e) {
      if (e.code !== 404 && e.code !== 409) throw e;
    }
    assert.ok(Date.now() < deadline, `never came true: ${look}`);
  }
}

async function gone(read) {
  try {
    await read();
  } catch (e) {
    return e.code === 404;
  }
  return false;
}

// The loop: look at one Greeting, and close the difference.
async function reconcile(g) {
  const { name, uid, generation } = g.metadata;
  const data = { text: `${g.spec.word}, world` };
  const owner = { apiVersion: g.apiVersion, kind: g.kind, name, uid, controller: true };
  try {
    const got = await core.readNamespacedConfigMap({ name, namespace });
    if (got.data?.text !== data.text) await core.replaceNamespacedConfigMap({ name, namespace, body: { ...got, data } });
  } catch (e) {
    if (e.code !== 404) throw e;
    await core.createNamespacedConfigMap({ namespace, body: { metadata: { name, ownerReferences: [owner] }, data } });
  }
  if (g.status?.observedGeneration === generation) return;
  await objects.patchNamespacedCustomObjectStatus(
    { ...at, name, body: { status: { observedGeneration: generation, text: data.text } } },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch));
}

let informer;
const failures = [];

before(async () => {
  const definition = {
    apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: `${plural}.${group}` },
    spec: {
      group, scope: 'Namespaced', names: { plural, singular: 'greeting', kind: 'Greeting', listKind: 'GreetingList' },
      versions: [{
        name: version, served: true, storage: true, subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object', required: ['spec'],
            properties: {
              spec: { type: 'object', properties: { word: { type: 'string', minLength: 2, _default: 'Hello' } } },
              status: { type: 'object', properties: { observedGeneration: { type: 'integer' }, text: { type: 'string' } } },
            },
          },
        },
      }],
    },
  };
  await definitions.createCustomResourceDefinition({ body: definition });
  await eventually(async () => {
    const got = await definitions.readCustomResourceDefinition({ name: definition.metadata.name });
    return got.status?.conditions?.some((c) => c.type === 'Established' && c.status === 'True');
  });
  const list = () => objects.listNamespacedCustomObject(at);
  informer = k8s.makeInformer(config, `/apis/${group}/${version}/namespaces/${namespace}/${plural}`, list);
  for (const event of ['add', 'update']) {
    informer.on(event, (g) => reconcile(g).catch((e) => { if (e.code !== 409) failures.push(e); }));
  }
  informer.on('error', (e) => failures.push(e));
  await informer.start();
});

after(async () => {
  await informer?.stop();
  await definitions.deleteCustomResourceDefinition({ name: `${plural}.${group}` });
});

test('a custom resource and its loop', async () => {
  const body = { apiVersion: `${group}/${version}`, kind: 'Greeting', metadata: { name: 'hi' }, spec: {} };
  const made = await objects.createNamespacedCustomObject({ ...at, body });
  assert.equal(made.spec.word, 'Hello', 'the default of the schema');
  const read = () => objects.getNamespacedCustomObject({ ...at, name: 'hi' });
  await eventually(async () => (await read()).status?.observedGeneration === 1);
  assert.equal((await core.readNamespacedConfigMap({ name: 'hi', namespace })).data.text, 'Hello, world');

  await objects.patchNamespacedCustomObject(
    { ...at, name: 'hi', body: [{ op: 'replace', path: '/spec/word', value: 'Bye' }] },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.JsonPatch));
  await eventually(async () => (await read()).status?.text === 'Bye, world');

  await assert.rejects(
    objects.createNamespacedCustomObject({ ...at, body: { ...body, metadata: { name: 'bad' }, spec: { word: 'x' } } }),
    (e) => e.code === 422 && JSON.stringify(e.body).includes('spec.word'));
  await objects.deleteNamespacedCustomObject({ ...at, name: 'hi' });
  await eventually(() => gone(read));
  assert.deepEqual(failures, []);
});

test('a watch, and all kinds of patches', async () => {
  const name = 'patched';
  const seen = [];
  const watch = new k8s.Watch(config);
  const request = await watch.watch(`/api/v1/namespaces/${namespace}/configmaps`, { fieldSelector: `metadata.name=${name}` },
    (type, object) => seen.push(`${type} ${JSON.stringify(object.data ?? {})}`), () => {});
  await core.createNamespacedConfigMap({ namespace, body: { metadata: { name }, data: { a: '1' } } });
  const patch = (body, strategy) => core.patchNamespacedConfigMap(
    { name, namespace, body, fieldManager: 'node', force: strategy === k8s.PatchStrategy.ServerSideApply ? true : undefined },
    k8s.setHeaderOptions('Content-Type', strategy));
  await patch({ data: { b: '2' } }, k8s.PatchStrategy.MergePatch);
  await patch([{ op: 'remove', path: '/data/a' }], k8s.PatchStrategy.JsonPatch);
  await patch({ data: { c: '3' } }, k8s.PatchStrategy.StrategicMergePatch);
  await patch({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { c: '4' } }, k8s.PatchStrategy.ServerSideApply);
  await core.deleteNamespacedConfigMap({ name, namespace });
  await eventually(async () => seen.length >= 6);
  request.abort();
  assert.deepEqual(seen, ['ADDED {"a":"1"}', 'MODIFIED {"a":"1","b":"2"}', 'MODIFIED {"b":"2"}',
    'MODIFIED {"b":"2","c":"3"}', 'MODIFIED {"b":"2","c":"4"}', 'DELETED {"b":"2","c":"4"}']);
});
