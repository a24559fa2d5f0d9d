// Tables of data: order, links and CSV.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const React = {
  createElement: (tag, properties, ...children) => ({tag, properties, children: children.flat(2)}),
  useState: (initial) => [typeof initial === 'function' ? initial() : initial, () => {}],
  useMemo: (make) => make(),
  useEffect: () => {},
};
const COLUMNS = [
  {field: 'name', title: 'Name', kind: 'name', href: '/trace?at=step:{step}'},
  {field: 'bytes', title: 'Size', kind: 'bytes'},
  {field: 'start', title: 'Live steps', kind: 'life', end: 'end'},
];
const DATA = {
  name: ['b', '=cmd()', 'a "quoted", name'], bytes: [1, 2048, null], step: [7, null, 0],
  start: [0, null, 3], end: [1, null, 9],
};

function page(search = '') {
  return loadPage(['formats.js', 'shown_text.js', 'markup.js', 'data_table.js'], {React, location: {search}});
}

/** Return all elements of a tag below an element. */
function all(element, tag) {
  if (!element || typeof element !== 'object') return [];
  return [...(element.tag === tag ? [element] : []), ...element.children.flatMap((child) => all(child, tag))];
}

test('rows are sorted with missing values last', () => {
  const {tilescope_tables: tables} = page();
  const order = (sort) => plain(tables.sorted(COLUMNS, DATA, sort));
  assert.deepEqual(order(null), [0, 1, 2]);
  assert.deepEqual(order({field: 'bytes', isDown: true}), [1, 0, 2]);
  assert.deepEqual(order({field: 'bytes', isDown: false}), [0, 1, 2]);
  assert.deepEqual(order({field: 'name', isDown: false}), [1, 2, 0]);
});

test('the first click on a header shows the largest amounts, or names from A', () => {
  const {tilescope_tables: tables} = page();
  const first = tables.nextSort(null, COLUMNS[1]);
  assert.deepEqual(plain(first), {field: 'bytes', isDown: true});
  const second = tables.nextSort(first, COLUMNS[1]);
  assert.deepEqual(plain(second), {field: 'bytes', isDown: false});
  assert.equal(tables.nextSort(second, COLUMNS[1]), null);
  assert.deepEqual(plain(tables.nextSort(first, COLUMNS[0])), {field: 'name', isDown: false});
});

test('CSV holds exact numbers, quotes texts and makes formulas harmless', () => {
  const {tilescope_tables: tables} = page();
  assert.equal(tables.csv(COLUMNS, DATA, [0, 1, 2]),
    'Name,"Size, bytes",First live step,Last live step\r\n'
    + 'b,1,0,0\r\n' + "'=cmd(),2048,,\r\n" + '"a ""quoted"", name",,3,8\r\n');
});

test('a row leads to its view; one without a place does not', () => {
  const {tilescope_tables: {DataTable}} = page();
  const drawn = DataTable({columns: COLUMNS, data: DATA, label: 'Rows', empty: '', file: 'rows'});
  const links = all(drawn, 'a');
  assert.deepEqual(links.map((link) => link.properties.href), ['/trace?at=step:7', '/trace?at=step:0']);
  assert.deepEqual(plain(links.map((link) => link.children)), [['b'], ['a "quoted", name']]);
  const cells = all(drawn, 'td').map((cell) => cell.children[0]);
  assert.deepEqual(cells.filter((cell) => typeof cell === 'string'),
    ['1 B', '0', '=cmd()', '2.0 KiB', 'always', '–', '3 to 8']);
});

test('long tables show a part and say so; the number of rows is that of the data', () => {
  const {tilescope_tables: {DataTable}} = page();
  const data = {name: Array.from({length: 450}, (_, row) => 'v' + row)};
  const columns = [{field: 'name', title: 'Name', kind: 'name'}];
  const drawn = DataTable({columns, data, label: 'Rows', empty: '', file: 'rows'});
  assert.equal(all(drawn, 'td').length, 200);
  assert.deepEqual(all(drawn, 'span').map((note) => note.children[0]), ['First 200 of 450 rows']);
  const empty = DataTable({columns, data: {name: []}, label: '', empty: 'Clear the filter.', file: ''});
  assert.deepEqual(plain(empty.children), ['Clear the filter.']);
});

test('the order of a table comes from the address, each table its own', () => {
  const names = (search) => {
    const {tilescope_tables: {DataTable}} = page(search);
    const drawn = DataTable({columns: COLUMNS, data: DATA, label: 'Rows', empty: '', file: 'rows'});
    return all(drawn, 'tr').slice(1).map((row) => Number(row.properties.key));
  };
  assert.deepEqual(names('?sort=other:bytes:up,rows:bytes:down'), [1, 0, 2]);
  assert.deepEqual(names('?sort=rows:name:up'), [1, 2, 0]);
  for (const odd of ['', '?sort=rows:none:up', '?sort=rows:bytes', '?sort=%00']) {
    assert.deepEqual(names(odd), [0, 1, 2], odd);
  }
});
