// The state of a page in its address: what is read from it, what is written to it.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const SPEC = {
  name: 'memory',
  path: '/memory',
  panels: {'view-memory-figure': ['by', 'x']},
  parameters: [
    {name: 'tiles', control: 'memory-tiles', prop: 'value', default: '', selects: 'tile'},
    {name: 'by', control: 'memory-by', prop: 'value', default: 'category'},
    {name: 'gaps', control: 'memory-gaps', prop: 'checked', default: ''},
    {name: 'x', default: ''},
  ],
};

/** Return a page at an address that notes how its history and its controls change. */
function pageAt(pathname, search = '') {
  const pushed = [];
  const told = [];
  const location = {pathname, search, hash: '', href: ''};
  const note = (how) => (state, title, address) => {
    pushed.push([how, address]);
    location.search = address.includes('?') ? address.slice(address.indexOf('?')) : '';
  };
  const page = loadPage(['view.js'], {
    location,
    history: {pushState: note('push'), replaceState: note('replace')},
    Event: class { constructor(type) { this.type = type; } },
    dispatchEvent: (event) => told.push(event.type),
    dash_clientside: {no_update: 'no update', callback_context: {outputs_list: {id: 'view-memory-figure'}}},
    tilescope: {mounted: (name) => told.push('mounted ' + name), newestReport: () => 'r1'},
  });
  return {page, view: page.dash_clientside.view, pushed, told};
}

test('a page reads its parameters, with defaults for those the address lacks', () => {
  const {view, told} = pageAt('/memory', '?tiles=3,4&gaps=1&x=0:9');
  const [state, ...values] = view.read(null, SPEC, null);
  assert.deepEqual(plain(state),
    {report: 'r1', with: '', tiles: '3,4', by: 'category', gaps: '1', x: '0:9'});
  assert.deepEqual(values, ['3,4', 'category', true]);
  assert.deepEqual(told, ['mounted memory']);
});

test('a page leaves the address of another page alone', () => {
  const {view, pushed} = pageAt('/trace');
  assert.deepEqual(plain(view.read(null, SPEC, null)), Array(4).fill('no update'));
  view.write('1', 'category', false, SPEC);
  assert.deepEqual(pushed, []);
});

test('the same state is told once', () => {
  const {view} = pageAt('/memory');
  const [state] = view.read(null, SPEC, null);
  assert.equal(view.read(1, SPEC, plain(state))[0], 'no update');
});

test('a panel is told of its own parameters only', () => {
  const {view} = pageAt('/memory');
  const all = {report: 'r1', with: '', tiles: '3', by: 'region', gaps: '', x: ''};
  const part = plain(view.derive(all, SPEC, null));
  assert.deepEqual(part, {report: 'r1', with: '', by: 'region', x: ''});
  assert.equal(view.derive({...all, tiles: '4'}, SPEC, part), 'no update');
  assert.notEqual(view.derive({...all, x: '1:2'}, SPEC, part), 'no update');
});

test('what a person changes goes into the address, a default leaves it', () => {
  const {view, pushed} = pageAt('/memory');
  view.read(null, SPEC, null);
  view.write('', 'category', false, SPEC);
  assert.deepEqual(pushed, []);
  view.write('', 'region', true, SPEC);
  view.write('', 'category', true, SPEC);
  assert.deepEqual(pushed, [
    ['replace', '/memory?by=region&gaps=1'],
    ['replace', '/memory?gaps=1'],
  ]);
});

test('what a parameter names is selected on all pages', () => {
  const {page, view, pushed} = pageAt('/memory', '?select=step:9');
  view.read(null, SPEC, null);
  page.tilescope.changeView({x: '1:2'}, false);
  page.tilescope.changeView({tiles: '5,7'}, true);
  page.tilescope.changeView({tiles: ''}, true);
  assert.deepEqual(pushed, [
    ['replace', '/memory?select=step:9&x=1:2'],
    ['push', '/memory?select=tile:5,7&x=1:2&tiles=5,7'],
    ['push', '/memory?x=1:2'],
  ]);
});

test('a selection of another kind outlives a parameter that goes', () => {
  const {page, view, pushed} = pageAt('/memory', '?tiles=1&select=step:9');
  view.read(null, SPEC, null);
  page.tilescope.changeView({tiles: ''}, true);
  assert.deepEqual(pushed, [['push', '/memory?select=step:9']]);
});

test('a script may push a step into the history; nothing new is no step', () => {
  const {page, pushed, told} = pageAt('/memory', '?tiles=1');
  page.tilescope.changeView({tiles: '2', x: ''}, true);
  page.tilescope.changeView({tiles: '2'}, true);
  assert.deepEqual(pushed, [['push', '/memory?tiles=2']]);
  assert.deepEqual(told, ['tilescope:address']);
});
