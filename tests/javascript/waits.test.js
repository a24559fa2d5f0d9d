// Which waits have arrows, and what a wait is called.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const space = loadPage(['trace/waits.js']).tilescopeTrace;
const wait = (ipu, start, end, late = 9) => ({
  ipu_id: ipu, step_id: 1, start_cycle: start, end_cycle: end, late_ipu_id: late, late_cycle: end, late_step_id: 2, late_step: 's',
});

test('the wait of an IPU at a cycle', () => {
  const waits = [wait(0, 10, 20), wait(1, 10, 30), wait(0, 40, 50)];
  assert.equal(space.waitAt(waits, 0, 45), waits[2]);
  assert.equal(space.waitAt(waits, 1, 29), waits[1]);
  assert.equal(space.waitAt(waits, 0, 20), null);
  assert.equal(space.waitAt([], 0, 0), null);
});

test('all waits of eight pixels have arrows while they are few, else the selected one', () => {
  const few = [wait(0, 0, 100), wait(1, 50, 57), wait(2, 900, 1000)];
  assert.deepEqual(plain(space.shownWaits(few, {start: 0, end: 500}, 1, null)), plain([few[0]]));
  const many = Array.from({length: 41}, (_, i) => wait(i, 100 * i, 100 * i + 80));
  const range = {start: 0, end: 5000};
  assert.equal(space.shownWaits(many.slice(1), range, 10, null).length, 40);
  assert.deepEqual(plain(space.shownWaits(many, range, 10, null)), []);
  const selected = {ipu_id: 7, start_cycle: 690, end_cycle: 790};
  assert.deepEqual(plain(space.shownWaits(many, range, 10, selected)), plain([many[7]]));
});

test('a wait says whom it is for, as far as there is room', () => {
  const measure = (text) => 6 * text.length;
  assert.equal(space.waitText(wait(0, 0, 9, 12), 200, measure), 'waits for IPU 12');
  assert.equal(space.waitText(wait(0, 0, 9, 12), 60, measure), '← IPU 12');
  assert.equal(space.waitText(wait(0, 0, 9, 12), 20, measure), '←12');
  assert.equal(space.waitText(wait(0, 0, 9, 12), 10, measure), '');
});
