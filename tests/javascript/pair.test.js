// Two reports in one trace, and the difference flame: order of rows, shades, words.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const space = loadPage([
  'search.js',
  'axis/words.js', 'trace/words.js', 'trace/source.js', 'trace/pair.js', 'trace/flame_difference.js',
]).tilescopeTrace;

test('rows of one track stand one above the other', () => {
  const track = (ipu, number) => ({ipu_id: ipu, track: number});
  const found = space.tracksOf([
    {tracks: [track(0, 0), track(0, 1), track(1, 0)]}, {tracks: [track(0, 0), track(1, 0), track(2, 0)]},
  ]);
  assert.deepEqual(
    plain(found).map(({ipu_id: ipu, track: number, side}) => space.groupKey(ipu, number, side)),
    ['0.0', '0.0.1', '0.1', '1.0', '1.0.1', '2.0.1'],
  );
});

test('one report has no alignment, two are aligned by step unless the address says otherwise', () => {
  assert.equal(space.alignment({report: 'a', align: 'time'}), '');
  assert.equal(space.alignment({report: 'a', with: 'b'}), 'step');
  assert.equal(space.alignment({report: 'a', with: 'b', align: 'time'}), 'time');
  assert.equal(space.alignment({report: 'a', with: 'b', align: '../x'}), 'step');
});

test('a side of a pair asks on the common axis, its names are those of its report', () => {
  const [one, other] = space.sourcesOf('a/b', 'c', 'cycle');
  assert.equal(one.url('window', {start: 1}), '/api/trace-pair/a%2Fb/c/cycle/0/window?start=1');
  assert.equal(other.url('slice'), '/api/trace-pair/a%2Fb/c/cycle/1/slice');
  assert.equal(other.url('names'), '/api/trace/c/names');
  assert.equal(space.sourcesOf('a', '', '')[0].url('window'), '/api/trace/a/window');
});

test('of steps that are aligned, the runs say how long they are, not the axis', () => {
  const run = (end, own) => ({runs: [{name: 'run 0', start_cycle: 0, end_cycle: end, own_cycles: own}]});
  const sources = space.sourcesOf('a', 'b', 'step');
  space.noteRuns(sources, [run(547795, 530994), run(547795, 377734)]);
  assert.equal(space.runText(sources[1], 'run 0'), 'run 0 · 377,734 cycles');
  assert.equal(space.rangeWords({start: 0, end: 547795}, 'step', sources, 1e9),
    'Steps set beside each other, from 0 to 547,795; the runs take 530,994 (baseline) and 377,734 (candidate) cycles');
  assert.equal(space.axisUnit('step'), ' cycles, steps aligned');
  // On the other axes, and of one report, a distance is a time.
  space.noteRuns(sources, [run(9, undefined), run(7, 7)]);
  assert.equal(space.runText(sources[0], 'run 0'), 'run 0 · 9 cycles');
  assert.equal(space.rangeWords({start: 1.2, end: 1001}, 'cycle', sources, 1e9), '1,000 cycles from 1 to 1,001 (1 µs)');
  assert.equal(space.axisUnit('time'), ' cycles');
});

test('the shade of a row is the part of it that changed', () => {
  const shade = (before, after) => space.flameShade({baseline_cycles: before, candidate_cycles: after});
  assert.deepEqual([
    shade(10, 10), shade(100, 101), shade(100, 133), shade(100, 400), shade(0, 5), shade(5, 0), shade(100, 75),
  ], [0, 1, 1, 3, 4, -4, -1]);
});

test('a change is also a text with its sign', () => {
  const text = (before, after, verdict = 'changed') => space.changeText({
    baseline_cycles: before, candidate_cycles: after, delta_cycles: after - before, verdict,
  });
  assert.equal(text(100, 128), '+28 %');
  assert.equal(text(1000, 985), '−1.5 %');
  assert.equal(text(1e6, 1e6 + 1), '< +0.1 %');
  assert.equal(text(7, 7), 'no change');
  assert.equal(text(0, 7, 'added'), 'added');
  assert.equal(text(0, 1200), '+1,200');
  assert.equal(space.signed(-1234), '−1,234');
});
