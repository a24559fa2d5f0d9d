// Kept marks in the address, and where the flags of notes stand.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const space = loadPage(['trace/notes.js']).tilescopeTrace;
const note = (start, end, text = 'a note') => ({
  note_id: '1', text, ipu_id: 0, start_cycle: start, end_cycle: end, missing: '', is_shared: false,
});

test('marks survive the address, and damaged ones are dropped', () => {
  const marks = [{start: 1, end: 5}, {start: -3, end: 9}];
  assert.deepEqual(plain(space.marksOf(space.marksText(marks))), marks);
  assert.deepEqual(plain(space.marksOf('5:1,x,3:,7:7,1:2')), [{start: 1, end: 2}]);
  assert.deepEqual(plain(space.marksOf('')), []);
  assert.equal(space.marksOf(Array.from({length: 9}, (_, i) => i + ':' + (i + 1)).join(',')).length, 6);
});

test('a mark is kept once, and let go the second time', () => {
  const one = {start: 1, end: 2};
  const two = {start: 3, end: 4};
  const both = space.toggledMark(space.toggledMark([], one), two);
  assert.deepEqual(plain(both), [one, two]);
  assert.deepEqual(plain(space.toggledMark(both, {...one})), [two]);
});

test('flags of notes do not lie over each other, and every visible note has a place', () => {
  const measure = (text) => 6 * text.length;
  const notes = [note(0, 100), note(5, 20), note(500, 600, 'x'.repeat(300)), note(null, null), note(2000, 2100)];
  const flags = space.noteFlags(notes, {start: 0, end: 1000}, 1000, measure);
  assert.equal(flags.length, 3);
  assert.deepEqual(plain(flags.map(({room}) => room > 0)), [true, false, true]);
  assert.ok(flags.every(({from, room}) => from + room <= 1000));
});
