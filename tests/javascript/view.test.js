// The state of a page in its address: what is read from it, what is written to it.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const SPEC = {
  path: '/memory',
  parameters: [
    {name: 'tiles', control: 'memory-tiles', prop: 'value', default: ''},
    {name: 'by', control: 'memory-by', prop: 'value', default: 'category'},
    {name: 'gaps', control: 'memory-gaps', prop: 'checked', default: ''},
    {name: 'x', default: ''},
  ],
};

/** Return a page at an address that notes how its history and its controls change. */
function pageAt(pathname, search = '') {
  const pushed = [];
  const set = [];
  const location = {pathname, search, hash: '', href: ''};
  const note = (how) => (state, title, address) => {
    pushed.push([how, address]);
    location.search = address.includes('?') ? address.slice(address.indexOf('?')) : '';
  };
  const page = loadPage(['view.js'], {
    location,
    history: {pushState: note('push'), replaceState: note('replace')},
    dash_clientside: {no_update: 'no update', set_props: (id, props) => set.push([id, plain(props)])},
  });
  return {page, view: page.dash_clientside.view, pushed, set};
}

test('a page reads its parameters, with defaults for those the address lacks', () => {
  const {view} = pageAt('/memory');
  const [state, ...values] = view.read('/memory', '?tiles=3,4&gaps=1&x=0:9', SPEC, null, [{id: 'r1'}]);
  assert.deepEqual(plain(state),
    {report: 'r1', with: '', tiles: '3,4', by: 'category', gaps: '1', x: '0:9'});
  assert.deepEqual(values, ['3,4', 'category', true]);
});

test('a page leaves the address of another page alone', () => {
  const {view, pushed} = pageAt('/trace');
  assert.deepEqual(plain(view.read('/trace', '', SPEC, null, [])), Array(4).fill('no update'));
  view.write('1', 'category', false, SPEC);
  assert.deepEqual(pushed, []);
});

test('the same state is told once', () => {
  const {view} = pageAt('/memory');
  const [state] = view.read('/memory', '', SPEC, null, []);
  assert.equal(view.read('/memory', '', SPEC, plain(state), [])[0], 'no update');
});

test('what a person changes goes into the address, a default leaves it', () => {
  const {view, pushed} = pageAt('/memory');
  view.read('/memory', '', SPEC, null, []);
  view.write('', 'category', false, SPEC);
  assert.deepEqual(pushed, []);
  view.write('5:7,9', 'region', true, SPEC);
  view.write('5:7,9', 'category', true, SPEC);
  assert.deepEqual(pushed, [
    ['replace', '/memory?tiles=5:7,9&by=region&gaps=1'],
    ['replace', '/memory?tiles=5:7,9&gaps=1'],
  ]);
});

test('a script may push a step into the history; nothing new is no step', () => {
  const {page, pushed, set} = pageAt('/memory', '?tiles=1');
  page.tilescope.changeView({tiles: '2', x: ''}, true);
  page.tilescope.changeView({tiles: '2'}, true);
  assert.deepEqual(pushed, [['push', '/memory?tiles=2']]);
  assert.equal(set.length, 1);
  assert.equal(set[0][1].search, '?tiles=2');
});
