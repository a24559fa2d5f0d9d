// Operations: which tab a chosen row shows, and the columns menu.
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
  return {changes, logic: page.dash_clientside.operations};
}

test('a row keeps the tabs of an operation and leaves those of all', () => {
  for (const [search, tab] of [['?tab=code', 'code'], ['?tab=plans', ''], ['', '']]) {
    const {changes, logic} = open(search);
    logic.pick([{key: 'conv#2'}]);
    assert.deepEqual(plain(changes), [[{op: 'conv#2', tab}, true]]);
  }
  const {changes, logic} = open('');
  logic.pick([{key: 'conv', layer: 'library'}]);
  assert.equal(changes[0][0].layer, '');
  logic.pick([]);
  assert.equal(changes.length, 1);
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
