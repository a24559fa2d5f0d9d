// Operations: which tab a chosen operation shows, and the columns menu.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

function open(search) {
  const changes = [];
  const page = loadPage(['operations.js'], {
    location: {pathname: '/operations', search, hash: '', href: ''},
    tilescope: {changeView: (change, push) => changes.push([change, push])},
    dash_clientside: {no_update: 'none'},
  });
  const arrive = page.listeners.find(([name]) => name === 'tilescope:address')[1];
  return {changes, arrive, logic: page.dash_clientside.operations};
}

test('a chosen operation keeps the tabs of an operation and leaves those of all', () => {
  for (const [search, expected] of [
    ['?op=conv&tab=code', []], ['?op=conv&tab=plans', [[{tab: ''}, false]]], ['?op=conv', []],
    ['?tab=plans', []],
  ]) {
    const {changes, arrive} = open(search);
    arrive();
    assert.deepEqual(plain(changes), expected, search);
    arrive();
    assert.equal(changes.length, expected.length, 'the same operation leaves the tab alone');
  }
});

test('the scripts of the graph are loaded once it is opened', async () => {
  const changes = [];
  const added = [];
  const root = {dataset: {scripts: '/one.js?m=1 /two.js?m=2'}};
  const page = loadPage(['operations.js'], {
    tilescope: {changeView: () => {}, isKnown: (report) => report === 'known'},
    dash_clientside: {no_update: 'none'},
    document: {
      addEventListener: () => {},
      getElementById: (id) => id === 'operations-graph' ? root : null,
      createElement: () => {
        const script = {addEventListener: (name, act) => { if (name === 'load') script.done = act; }};
        return script;
      },
      head: {append: (script) => { added.push(script); }},
      documentElement: {},
    },
  });
  const {showAs} = page.dash_clientside.operations;
  assert.deepEqual(plain(showAs({as: 'table', report: 'known'})), [{}, {}, {display: 'none'}, {display: 'none'}]);
  assert.deepEqual(plain(showAs({as: 'graph', report: 'unknown'})), [{display: 'none'}, {display: 'none'}, {}, {}]);
  await null;
  assert.equal(added.length, 0);
  const view = {as: 'graph', report: 'known'};
  showAs(view);
  showAs({...view, find: 'x'});
  assert.deepEqual(added.map((script) => [script.src, script.async]), [['/one.js?m=1', false], ['/two.js?m=2', false]]);
  page.tilescopeGraph = {show: (shownRoot, shown) => changes.push([shownRoot === root, plain(shown)])};
  for (const script of added) script.done();
  await new Promise((done) => setTimeout(done, 0));
  assert.deepEqual(changes, [[true, {...view, find: 'x'}]], 'the latest view alone is drawn');
});

test('the row of the selected operation is marked', () => {
  const {logic} = open('');
  assert.deepEqual(plain(logic.mark({op: 'conv#2'})), ['conv#2']);
  assert.deepEqual(plain(logic.mark({op: ''})), []);
  assert.deepEqual(plain(logic.mark(null)), []);
});

test('the menu shows the columns of the address', () => {
  const {logic} = open('');
  assert.deepEqual(plain(logic.showColumns({columns: 'a,b'}, [])), ['a', 'b']);
  assert.equal(logic.showColumns({columns: 'a,b'}, ['a', 'b']), 'none');
  assert.deepEqual(plain(logic.showColumns({columns: 'none'}, ['a'])), []);
});

test('chosen columns go into the address in the order of the table', () => {
  const all = [{value: 'a'}, {value: 'b'}, {value: 'c'}];
  const {changes, logic} = open('');
  logic.chooseColumns(['c', 'a'], {columns: 'a,b'}, all);
  logic.chooseColumns([], {columns: 'a,b'}, all);
  logic.chooseColumns(['b', 'a'], {columns: 'a,b'}, all);
  assert.deepEqual(plain(changes), [[{columns: 'a,c'}, false], [{columns: 'none'}, false]]);
});
