// Heights of rows for a window, and the share of kinds in a pixel.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const space = loadPage(['trace/layout.js', 'trace/share.js']).tilescopeTrace;
const open = (levels, tiles = 0) => ({form: 'open', levels, tiles, hasActivity: true});
const strip = {form: 'strip', levels: 1, tiles: 0, hasActivity: false};

function total(groups, room) {
  const heights = space.rowHeights(groups, room);
  return groups.reduce((sum, group) => sum + space.rowsOf(group, heights).reduce((all, row) => all + row.height, 0)
    + group.tiles * heights.step + (group.form === 'strip' ? 0 : space.GAP), 0);
}

test('rows fill their room, within their limits', () => {
  const one = space.rowHeights([open(5)], 480);
  assert.deepEqual(plain(one), {run: 20, names: 32, delta: 26, step: 32, activity: 240, strip: 0});
  const four = Array.from({length: 4}, () => open(4));
  assert.ok(total(four, 560) <= 560 && total(four, 560) > 560 - 8);
  // Where there is no room, the least heights stay, and the rows scroll.
  assert.deepEqual(plain(space.rowHeights(Array.from({length: 8}, () => open(6)), 400)), {
    run: 20, names: 0, delta: 26, step: 18, activity: 30, strip: 0,
  });
  assert.ok(space.rowHeights([open(5, 10)], 480).step < 32);
});

test('sixty-four groups are strips that fit', () => {
  const many = Array.from({length: 64}, () => strip);
  assert.equal(space.rowHeights(many, 500).strip, 7);
  assert.ok(total(many, 500) <= 500);
  assert.equal(space.rowHeights(Array.from({length: 9}, () => strip), 500).strip, 26);
  // An open one among them leaves the others their place.
  const mixed = [open(5), ...many.slice(1)];
  assert.ok(total(mixed, 620) <= 620);
});

test('a group has its rows one below the other', () => {
  const heights = {run: 20, names: 32, delta: 26, step: 18, activity: 40, strip: 9};
  const rows = space.rowsOf(open(2), heights);
  assert.deepEqual(plain(rows.map(({type, top}) => [type, top])), [
    ['runs', 0], ['names', 20], ['share', 52], ['slices', 92], ['slices', 110],
  ]);
  const lanes = [{level: -1}, {level: 0}, {level: 1}, {level: 2}];
  space.placeLanes(lanes, rows);
  assert.deepEqual(plain(lanes).map((lane) => lane.height), [20, 18, 18, 0]);
  assert.deepEqual(plain(space.rowsOf(strip, heights)), [{type: 'strip', level: 0, top: 0, height: 9}]);
  const closed = {form: 'closed', levels: 4, tiles: 0, hasActivity: false};
  assert.deepEqual(plain(space.rowsOf(closed, heights).map((row) => row.level)), [-1, 0]);
});

const lane = (bars, level = 0) => ({
  level, n: bars.length, start: bars.map((b) => b[0]), duration: bars.map((b) => b[1]), kind: bars.map((b) => b[2]),
  mix: bars.map((b) => b[3] ? 0 : -1), share: (bars.find((b) => b[3]) || [0, 0, 0, []])[3],
});

test('the columns of an answer hold all cycles of its steps, by kind', () => {
  const half = [128, 127, 0, 0, 0, 0, 0, 0, 0, 0];
  const lanes = [
    lane([[0, 100, 10]], -1), lane([[0, 25, 0], [25, 50, 9], [75, 10, 3]]), lane([[25, 30, 1], [60, 6, 0, half]], 1),
  ];
  const columns = space.shareColumns(lanes, 10, 10);
  const sums = [...space.columnSums(columns, 0, 10)];
  assert.deepEqual(sums.map(Math.round).slice(0, 4), [28, 33, 0, 10]);
  for (let pixel = 0; pixel < 10; pixel += 1) {
    const all = columns.slice(pixel * space.KINDS, (pixel + 1) * space.KINDS).reduce((a, b) => a + b, 0);
    assert.ok(all <= 10.001);
  }
  const twice = space.shareColumns([lane([[0, 10, 0]]), lane([[0, 10, 1]], 1)], 1, 10);
  assert.deepEqual([...twice].slice(0, 2), [5, 5]);
  // Parts of a range add up.
  const parts = [[0, 2.5], [2.5, 6.1], [6.1, 10]].map(([from, to]) => space.columnSums(columns, from, to)[0]);
  assert.ok(Math.abs(parts.reduce((a, b) => a + b, 0) - sums[0]) < 1e-4);
});

test('a bitmap has whole pixels: a stack, or the dominant kind where it is low', () => {
  const columns = space.shareColumns([lane([[0, 6, 0], [6, 4, 1], [10, 20, 1]])], 4, 10);
  const stack = space.shareRectangles(columns, 10, 20, 0);
  assert.deepEqual(plain(stack[0]), [[0, 8, 1, 12]]);
  assert.deepEqual(plain(stack[1]), [[0, 0, 1, 8], [1, 0, 1, 20], [2, 0, 1, 20]]);
  const low = space.shareRectangles(columns, 10, 7, 0);
  assert.deepEqual(plain(low[0]), [[0, 0, 1, 7]]);
  assert.deepEqual(plain(low[1]), [[1, 0, 2, 7]]);
  assert.deepEqual(plain(space.shareRectangles(columns, 10, 7, 0b10)[1]), []);
});

test('a long trace of many runs opens on the run of median length, any other on all', () => {
  const runs = [[0, 100], [100, 210], [210, 240], [240, 340]].map(([start, end]) => ({start_cycle: start, end_cycle: end}));
  const extent = {start_cycle: 0, end_cycle: 340, n_entries: 1e6, runs, tracks: [{}]};
  assert.deepEqual(plain(space.openingRange(extent, 1000)), {start: 0, end: 100});
  assert.deepEqual(plain(space.openingRange({...extent, n_entries: 50000}, 1000)), {start: 0, end: 340});
  assert.deepEqual(plain(space.openingRange({...extent, runs: runs.slice(0, 1)}, 1000)), {start: 0, end: 340});
});
