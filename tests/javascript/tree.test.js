// The program tree: rows of open nodes, children fetched page by page, once each.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage} = require('./page.js');

const element = () => ({
  style: {}, dataset: {}, classList: {add() {}}, children: [], append() {}, setAttribute() {},
  replaceChildren(...children) { this.children = children; },
});

/** Return a tree whose one root has so many children, and the addresses that were asked. */
async function shownTree(nChildren) {
  const asked = [];
  const node = (id, position, inside) => ({id, position, n_children: inside, kind: 'Sequence', name: '' + id});
  const answers = {
    roots: () => ({nodes: [node(0, 0, nChildren)]}),
    children: (query) => {
      const offset = Number(query.get('offset'));
      const n = Math.min(Number(query.get('limit')), nChildren - offset);
      return {nodes: Array.from({length: n}, (_, i) => node(1 + offset + i, offset + i, 0))};
    },
    path: (query) => {
      const id = Number(query.get('program'));
      return {path: [{id: 0, position: 0}, {id, position: id - 1}]};
    },
  };
  const host = {
    ...element(), scrollTop: 0, clientHeight: 240, addEventListener() {},
  };
  const page = loadPage(['tree.js'], {
    dash_clientside: {no_update: 'no update'},
    ResizeObserver: class { observe() {} },
    requestAnimationFrame: () => 1,
    document: {createElement: element, getElementById: () => host, addEventListener() {}},
    fetch: async (address) => {
      asked.push(address);
      const url = new URL(address, 'http://localhost');
      const what = url.pathname.split('/').at(-1);
      return {json: async () => ({ok: true, ...answers[what](url.searchParams)})};
    },
  });
  const show = (view) => page.dash_clientside.programs.show({report: 'r', node: '', find: '', ...view});
  await show({});
  return {asked, host, show};
}

test('the first page of children comes with the root', async () => {
  const {asked} = await shownTree(1200);
  assert.deepEqual(asked, ['/api/programs/r/roots?', '/api/programs/r/children?program=0&offset=0&limit=500']);
});

test('a chosen program is brought into sight, and its page is fetched once', async () => {
  const {asked, host, show} = await shownTree(1200);
  await show({node: '1101'});
  assert.ok(asked.includes('/api/programs/r/children?program=0&offset=1000&limit=500'));
  assert.equal(host.scrollTop, 1101 * 24 - 120);
  const before = asked.length;
  await show({node: '1102'});
  assert.deepEqual(asked.slice(before), ['/api/programs/r/path?program=1102']);
});
