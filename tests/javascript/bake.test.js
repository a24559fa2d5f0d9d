// What a frame needs of a lane, and the window that an answer is asked for.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const space = loadPage(['trace/bake.js', 'trace/paint.js', 'trace/share.js', 'trace/data.js']).tilescopeTrace;

/** Return a lane of bars as start, duration, kind and number of slices. */
function lane(bars) {
  const mixes = [];
  const share = [];
  for (const [, , kind, count = 1] of bars) {
    mixes.push(count > 1 ? share.length : -1);
    if (count > 1) for (let k = 0; k < 11; k += 1) share.push(k === kind ? 255 : 0);
  }
  return {
    level: 0, kinds: bars.reduce((bits, [, , kind]) => bits | 1 << kind, 0), n: bars.length,
    start: Float64Array.from(bars, ([start]) => start), duration: Float64Array.from(bars, ([, duration]) => duration),
    name: Int32Array.from(bars, ([, , , count = 1], i) => count > 1 ? -1 : i), kind: Uint8Array.from(bars, ([, , kind]) => kind),
    count: Int32Array.from(bars, ([, , , count = 1]) => count), mix: Int32Array.from(mixes), share: Uint8Array.from(share),
    top: 0, height: 20,
  };
}

test('of narrow bars in a pixel, the longest is shown, and wide bars in none', () => {
  const made = lane([[0, 3, 0], [3, 6, 1], [10, 40, 0], [50, 4, 2, 7], [54, 5, 3]]);
  assert.deepEqual(plain([...space.narrowColumns(made, 10, 10, 6)]), [1, -1, -1, -1, -1, 4]);
  assert.deepEqual(plain([...space.prepareLane(made, 10).wide]), [2]);
});

test('a narrow bar at the end of an answer is shown in its last pixel', () => {
  assert.deepEqual(plain([...space.narrowColumns(lane([[39, 1, 0]]), 10, 10, 4)]), [-1, -1, -1, 0]);
});

test('bars and slices in a range are counted, and the share that wide slices have', () => {
  const data = {start: 100, end: 160, perPixel: 10};
  const made = lane([[0, 10, 0, 5], [10, 30, 0], [40, 10, 1, 3]]);
  assert.deepEqual(plain(space.seenOf(data, made, {start: 100, end: 160})), {bars: 3, slices: 9, resolved: 0.6});
  assert.deepEqual(plain(space.seenOf(data, made, {start: 112, end: 120})), {bars: 1, slices: 1, resolved: 1});
  assert.deepEqual(plain(space.seenOf(data, made, {start: 155, end: 160})), {bars: 0, slices: 0, resolved: 1});
});

test('the pixels of several slices are as high as the shares of their kinds', () => {
  const made = lane([[0, 10, 0, 4]]);
  made.share.fill(0);
  made.share[0] = 153; // 60 %
  made.share[1] = 102;
  const colours = {kinds: ['#102030', '#405060'], groups: ['#000000'], surface: '#ffffff'};
  const scene = {colours, hidden: 0, matches: null, source: {labels: [], parents: []}};
  const pixels = [...space.bakedPixels(made, Int32Array.of(0, -1), 10, scene)];
  const [first, second] = colours.kinds.map((colour) => space.packedColour(colour));
  assert.equal(first, 0xff302010);
  assert.deepEqual(pixels.filter((_, i) => i % 2 === 0), [...Array(4).fill(second), ...Array(6).fill(first)]);
  assert.ok(pixels.every((pixel, i) => i % 2 === 0 || pixel === 0));
  const without = [...space.bakedPixels(made, Int32Array.of(0, -1), 10, {...scene, hidden: 2})];
  assert.equal(without.filter((pixel) => pixel === second).length, 0);
});

test('waits are hatched', () => {
  const colours = {kinds: ['#000001', '#000002', '#000003', '#000004', '#000005'], groups: [], surface: '#ffffff'};
  const scene = {colours, hidden: 0, matches: null, source: {labels: [], parents: []}};
  const pixels = [...space.bakedPixels(lane([[0, 1, 4]]), Int32Array.of(0), 12, scene)];
  const line = space.packedColour('#000005');
  assert.deepEqual(pixels.map((pixel) => pixel === line), Array.from({length: 12}, (_, y) => space.isHatched(0, y)));
});

test('columns of another scale have the same cycles', () => {
  const columns = Float32Array.from({length: 10 * 9}, (_, i) => i % 9 === 2 ? 8 : 0);
  const fewer = space.resampled(columns, 8, 14, 6);
  const sum = [...fewer].reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(sum - 80) < 1e-3);
  assert.ok(Math.abs(fewer[2] - 14) < 1e-4);
});

test('a window has a power of two of cycles a pixel, holds the range, and serves pans within it', () => {
  const extent = {start: 0, end: 1e9};
  for (const [start, span] of [[0, 1e9], [123456, 7e7], [5e8 + 3, 1000], [17, 9]]) {
    const range = {start, end: start + span};
    const wanted = span / 1100;
    const made = space.windowOf(range, extent, wanted, 1);
    assert.ok(Number.isInteger(Math.log2(made.perPixel)) && made.perPixel <= Math.max(1, wanted));
    assert.ok(made.start <= start && made.end >= Math.min(range.end, extent.end));
    assert.equal(made.start % made.perPixel, 0);
    assert.equal((made.end - made.start) / made.perPixel, made.pixels);
    assert.ok(made.pixels <= 20000 && space.isFine(made.perPixel, wanted));
  }
  const near = [0, 1, 2, 3].map((by) => space.windowOf({start: 5e8 + by, end: 5e8 + 1e6 + by}, extent, 1000, 1));
  for (const one of near) assert.deepEqual(plain(one), plain(near[0]));
});

test('a resolution is fine enough within a factor of four', () => {
  assert.ok(space.isFine(8, 8.1) && space.isFine(8, 20) && !space.isFine(8, 7) && !space.isFine(8, 33));
  assert.ok(space.isFine(1, 0.01));
});

test('the change of a pixel is what the candidate is busy longer', () => {
  const space2 = loadPage(['trace/share.js', 'trace/delta.js']).tilescopeTrace;
  const columns = (list) => Float32Array.from(list.flatMap((cycles) => [cycles, ...Array(8).fill(0)]));
  const sides = [
    {columns: columns([10, 10, 4, 0]), start: 0, perPixel: 10}, {columns: columns([10, 10, 10, 10, 10]), start: -10, perPixel: 10},
  ];
  assert.deepEqual(plain([...space2.deltaColumns(sides, {start: 0, cell: 10, pixels: 4})]), [0, 0, 6, 10]);
  assert.deepEqual(plain([...space2.deltaColumns([sides[0], null], {start: 0, cell: 20, pixels: 2})]), [-20, -4]);
});

test('several slices that a gap of the common axis parts fill no gap', () => {
  const made = lane([[0, 400, 0, 5]]);
  const columns = space.shareColumns([made], 50, 10);
  assert.equal([...columns].reduce((a, b) => a + b, 0), 20);
});
