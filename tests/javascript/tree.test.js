// The program tree: rows of open nodes, children fetched page by page, once each.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage} = require('./page.js');

const element = () => ({
  style: {}, dataset: {}, classList: {add() {}}, children: [], append() {}, setAttribute() {},
  addEventListener() {},
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
  const page = loadPage(['shown_text.js', 'tree.js'], {
    dash_clientside: {no_update: 'no update'},
    ResizeObserver: class { observe() {} },
    requestAnimationFrame: () => 1,
    document: {createElement: element, getElementById: () => host, addEventListener() {}},
    fetch: async (address) => {
      asked.push(address);
      const url = new URL(address, 'http://localhost');
      const what = url.pathname.split('/').at(-1);
      return {text: async () => JSON.stringify({ok: true, ...answers[what](url.searchParams)})};
    },
  });
  const show = (view) => page.dash_clientside.programs.show({report: 'r', with: '', node: '', find: '', layer: 'none', ...view});
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

test('a row has its cycles, two reports their change', async () => {
  const node = {id: '0', kind: 'Sequence', name: 's', n_children: 0, position: 0, cycles: 530994};
  const texts = async (view, fields) => {
    const host = {...element(), scrollTop: 0, clientHeight: 240};
    const space = element();
    host.append = () => {};
    let draw;
    const made = [];
    const page = loadPage(['shown_text.js', 'tree.js'], {
      dash_clientside: {no_update: 'no update'},
      ResizeObserver: class { observe() {} },
      requestAnimationFrame: (act) => { draw = act; return 1; },
      document: {
        createElement: () => { const one = element(); made.push(one); return one; },
        getElementById: (id) => id === 'programs-cycles' ? space : host, addEventListener() {},
      },
      fetch: async () => ({text: async () => JSON.stringify({ok: true, runs: 'in 1 recorded run', nodes: [fields]})}),
    });
    await page.dash_clientside.programs.show({report: 'r', with: '', node: '', find: '', layer: 'none', ...view});
    draw();
    const of = (name) => made.filter((one) => one.className === name).map((one) => one.textContent);
    return [of('tree-cycles'), of('tree-change'), space.textContent];
  };
  assert.deepEqual(await texts({}, node), [['530,994'], [], 'Right: cycles in 1 recorded run']);
  const pair = {...node, mark: 'changed', one: node, other: {...node, cycles: 377734}, change: '-153,260 (-28.86 %)'};
  assert.deepEqual(await texts({with: 's'}, pair), [
    ['530,994', '377,734'], ['-153,260 (-28.86 %)'], 'Right: cycles in 1 recorded run, and their change',
  ]);
  // A call of a function holds no steps.
  assert.deepEqual((await texts({}, {...node, cycles: null}))[0], ['']);
});

test('two reports are one tree; its answers say how many children there are', async () => {
  const asked = [];
  const side = (id) => ({id, kind: 'Sequence', name: 's' + id, n_children: 0, position: 0});
  const answers = {
    roots: {nodes: [{...side(0), id: '0', mark: 'changed', n_children: 2, one: side(0), other: side(5)}]},
    children: {
      n_children: 3,
      nodes: [['1', 'same', 1, 6], ['c7', 'added', null, 7], ['2', 'removed', 2, null]].map(
        ([id, mark, one, other], position) => ({
          ...side(0), id, mark, position, one: one && side(one), other: other && side(other),
        })),
    },
    path: {path: [{id: '0', position: 0}, {id: 'c7', position: 1}]},
  };
  const host = {...element(), scrollTop: 0, clientHeight: 240};
  const page = loadPage(['shown_text.js', 'tree.js'], {
    dash_clientside: {no_update: 'no update'},
    ResizeObserver: class { observe() {} },
    requestAnimationFrame: () => 1,
    document: {createElement: element, getElementById: () => host, addEventListener() {}},
    fetch: async (address) => {
      asked.push(address);
      const what = new URL(address, 'http://localhost').pathname.split('/').at(-1);
      return {text: async () => JSON.stringify({ok: true, ...answers[what]})};
    },
  });
  const view = {report: 'r', with: 'q', find: '', layer: 'none', node: 'c7'};
  await page.dash_clientside.programs.show(view);
  assert.deepEqual(asked, [
    '/api/programs/r/compare/roots?with=q',
    '/api/programs/r/compare/children?with=q&one=0&other=5&offset=0&limit=500',
    '/api/programs/r/compare/path?with=q&key=c7',
  ]);
});
