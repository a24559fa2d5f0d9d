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
