// Kinds of steps that the legend hides, and the lanes of a view.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage} = require('./page.js');

const space = loadPage(['trace/kinds.js', 'trace/tiles.js']).tilescopeTrace;
const kinds = ['compute', 'exchange', 'global_exchange', 'sync'].map((name, number) => ({name, number}));

test('the address names the hidden kinds; what is no kind of step stays', () => {
  const all = [...kinds, {name: 'group', number: 9}];
  assert.equal(space.hiddenKinds('', all), 0);
  assert.equal(space.hiddenKinds('sync,compute', all), 0b1001);
  assert.equal(space.hiddenKinds('group,nothing', all), 0);
});

test('phases are merged in the flame only', () => {
  assert.equal(space.viewOf({view: 'flame', merge: ''}), 'flame');
  assert.equal(space.viewOf({view: 'flame', merge: '1'}), 'calls');
  assert.equal(space.viewOf({view: 'flat', merge: '1'}), 'flat');
});

test('tiles are a list of numbers and ranges, sixteen at most', () => {
  assert.deepEqual([...space.tilesOf('3, 7-9, 3, x, 12-11')], [3, 7, 8, 9]);
  assert.equal(space.tilesOf('0-999999').length, 16);
  assert.deepEqual([space.tileOf(4), space.tileOf(1000012)], [-1, 12]);
});

test('shares are short', () => {
  const texts = [0, 0.0004, 0.001, 0.0995, 0.553, 1].map((share) => space.shareText(share));
  assert.deepEqual(texts, ['–', '<0.1 %', '0.1 %', '10 %', '55 %', '100 %']);
});
