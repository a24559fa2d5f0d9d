// The longest step of every pixel, the names that it gets, and which levels it takes the place of.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const space = loadPage(['trace/longest.js', 'trace/labels.js']).tilescopeTrace;
const measure = (text) => 6 * text.length;

/** Return a lane of steps as start, duration, name, kind, and of several steps name and cycles of the longest. */
function steps(bars) {
  const merged = bars.filter((bar) => bar.length > 4);
  let n = -3;
  return {
    n: bars.length, nKinds: 3, kind: Uint8Array.from(bars, (bar) => bar[3]), name: Int32Array.from(bars, (bar) => bar[2]),
    start: Float64Array.from(bars, (bar) => bar[0]), duration: Float64Array.from(bars, (bar) => bar[1]),
    mix: Int32Array.from(bars, (bar) => bar.length > 4 ? n += 3 : -1),
    longestName: Int32Array.from(merged, (bar) => bar[4]), longestCycles: Float32Array.from(merged, (bar) => bar[5]),
  };
}

test('levels stay as they are between the two limits', () => {
  assert.equal(space.unresolvedLevel([1, 0.9, 0.2, 0.8], 4), 2);
  assert.equal(space.unresolvedLevel([1, 0.9, 0.35, 0.8], 4), 4);
  assert.equal(space.unresolvedLevel([1, 0.9, 0.35, 0.8], 2), 2);
  assert.equal(space.unresolvedLevel([1, 0.9, 0.45, 0.8], 2), 4);
  assert.equal(space.unresolvedLevel([1, 0.1, 0.1], 2), 1);
  assert.equal(space.unresolvedLevel([], 0), 0);
});

test('every pixel has its longest step, of single ones and of several', () => {
  const lane = steps([[0, 4, 0, 0], [4, 5, 1, 1], [10, 9, -1, 2, 7, 3], [20, 25, 2, 0], [46, 3, 3, 1]]);
  const options = {level: 0, depths: new Uint8Array(8), cell: 10, pixels: 5, hidden: 0};
  const found = space.longestColumns(lane, options);
  assert.deepEqual(plain([...found.name]), [1, 7, 2, 2, 2]);
  assert.deepEqual(plain([...found.cycles]), [5, 3, 25, 25, 25]);
  assert.deepEqual(plain([...found.bar]), [1, 2, 3, 3, 3]);
  assert.deepEqual(plain([...space.longestColumns(lane, {...options, hidden: 1}).name]), [1, 7, -1, -1, 3]);
});

test('steps above the first level that is not drawn are left out', () => {
  const lane = steps([[0, 9, 0, 0], [9, 1, 1, 0]]);
  const depths = space.depthsOf({labels: ['a', 'b', 'c'], parents: [-1, 2, -1]});
  assert.deepEqual(plain([...depths]).slice(0, 1), [0]);
  const found = space.longestColumns(lane, {level: 1, depths: Uint8Array.of(0, 2), cell: 10, pixels: 1, hidden: 0});
  assert.deepEqual(plain([...found.name]), [1]);
});

test('at most twelve names, each once, the longest first, none over another or its tick', () => {
  const pixels = 1000;
  const columns = {cycles: new Float32Array(pixels), name: new Int32Array(pixels).fill(-1), bar: new Int32Array(pixels)};
  for (let pixel = 0; pixel < pixels; pixel += 7) {
    columns.name[pixel] = pixel % 40;
    columns.cycles[pixel] = 1 + pixel * 37 % 101;
  }
  const named = space.namedColumns(columns, 100, 900, {
    width: 800, lines: 2, most: 1e9, textOf: (id) => 'step ' + id, measure,
  });
  assert.ok(named.length > 3 && named.length <= 12);
  assert.equal(new Set(named.map(({text}) => text)).size, named.length);
  for (const one of named) {
    assert.ok(one.x >= 0 && one.x + one.room <= 800);
    const at = one.pixel - 100;
    for (const other of named) {
      if (one === other) continue;
      if (one.line === other.line) assert.ok(one.x + one.room <= other.x || other.x + other.room <= one.x);
      if (one.line < other.line) assert.ok(at < other.x || at > other.x + other.room);
    }
  }
  const longest = Math.max(...[...columns.cycles].slice(100, 900));
  assert.equal(columns.cycles[named[0].pixel], longest);
  const short = space.namedColumns(columns, 100, 900, {width: 800, lines: 2, most: 50, textOf: String, measure});
  assert.ok(short.every(({pixel}) => columns.cycles[pixel] < 50));
});

test('a name has as many of its last levels as fit', () => {
  assert.equal(space.lastLevels('net/block/conv/reduce', 200, measure), 'block/conv/reduce');
  assert.equal(space.lastLevels('net/block/conv/reduce', 70, measure), 'conv/reduce');
  assert.equal(space.lastLevels('net/block/conv/reduce', 40, measure), 'reduce');
  assert.equal(space.lastLevels('out', 200, measure), 'out');
});
