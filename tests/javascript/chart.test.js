// What the charts of Memory and Liveness compute without drawing.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const page = loadPage([
  'search.js', 'shown_text.js',
  'formats.js', 'axis/words.js', 'axis/motion.js', 'axis/input.js', 'chart/frame.js', 'chart/lives.js',
  'chart/map.js', 'chart/save.js', 'chart/series.js', 'chart/source.js', 'chart/start.js',
]);
const {tilescopeChart: space, dash_clientside: clientside} = page;

/** Return one report's part of an answer; every place has the value of its stack. */
function side(place, stack, members = {}) {
  const none = {height: [], place: [], item: []};
  return {
    name: 'Baseline', colour: '#000', n_shown: place.length, n_items: place.length, n_found: null,
    highest_bytes: Math.max(...stack), capacity_bytes: 1000, beside_bytes: 0, place, item: place, total: stack, stack,
    series: [{label: 'Total', colour: '#123456', values: stack}], matches: none, ...members,
  };
}

/** Return a plot of 100 places on 200 pixels that draws nothing. */
function plot(members = {}) {
  const made = Object.create(space.SeriesPlot.prototype);
  Object.defineProperty(made, 'width', {value: 200});
  return Object.assign(made, {
    extent: {start: -0.5, end: 99.5}, range: {start: -0.5, end: 99.5}, noun: 'tile', view: {}, asked: 'q',
    options: {}, near: null, whole: null, ...members,
  });
}

test('an answer is unpacked as the server packs it', () => {
  const header = {
    start: 0, end: 3, n_columns: 9, n_places: 3,
    sides: [{n_shown: 2, n_matches: 1, series: [{label: 'a'}, {label: 'b'}]}],
  };
  let text = JSON.stringify(header);
  while ((text.length + 4) % 8) text += ' ';
  const buffer = new ArrayBuffer(4 + text.length + 6 * 8 + 4 * 4 + 8 + 8);
  const bytes = new Uint8Array(buffer);
  new DataView(buffer).setUint32(0, text.length, true);
  bytes.set(new TextEncoder().encode(text), 4);
  let at = 4 + text.length;
  new Float64Array(buffer, at, 6).set([10, 20, 1, 2, 11, 22]);
  at += 48;
  new Int32Array(buffer, at, 4).set([0, 2, 7, 9]);
  at += 16;
  new Float64Array(buffer, at, 1).set([22]);
  new Int32Array(buffer, at + 8, 2).set([2, 9]);
  const {sides: [found]} = space.unpackChart(buffer);
  assert.deepEqual([...found.series[1].values], [1, 2]);
  assert.deepEqual([[...found.total], [...found.stack]], [[11, 22], [11, 22]]);
  assert.deepEqual([[...found.place], [...found.item]], [[0, 2], [7, 9]]);
  assert.deepEqual([[...found.matches.height], [...found.matches.place], [...found.matches.item]], [[22], [2], [9]]);
});

test('places are found in sorted lists', () => {
  const places = [2, 4, 9];
  assert.deepEqual([1, 2, 3, 9, 10].map((value) => space.lowerBound(places, value)), [0, 0, 1, 2, 3]);
  assert.deepEqual([2, 3, 9].map((value) => space.indexOf(places, value)), [0, -1, 2]);
  assert.deepEqual([-5, 3, 6.4, 6.6, 99].map((value) => space.nearest(places, value)), [0, 0, 1, 2, 2]);
  assert.equal(space.nearest([], 3), -1);
});

test('lists of numbers are read and written', () => {
  assert.deepEqual(plain(space.ranges('0, 5;100-103, x, 9-3')), [[0, 0], [5, 5], [100, 103], [9, 9]]);
  assert.deepEqual(plain(space.ranges('')), []);
  assert.equal(space.listOf([0, 1, 2, 7, 9, 10]), '0-2,7,9-10');
  assert.equal(space.listOf([]), '');
});

test('a place reaches half-way to its neighbours, on whole device pixels', () => {
  const {from, to, ends} = plot().columnEnds(side([0, 1, 50, 99], [1, 1, 1, 1]), 1);
  assert.deepEqual([from, to], [0, 4]);
  assert.deepEqual([...ends], [0, 2, 52, 150, 200]);
  const near = plot({range: {start: 39.5, end: 59.5}});
  const some = near.columnEnds(side([0, 1, 50, 99], [1, 1, 1, 1]), 2);
  assert.deepEqual([some.from, some.to], [1, 4]);
});

test('an answer is drawn until a finer one that covers the range arrives', () => {
  const whole = {asked: 'q', start: 0, end: 100, n_columns: 20, sides: [side([0, 99], [1, 2], {n_items: 100})]};
  const near = {asked: 'q', start: 10, end: 30, n_columns: 400, sides: [side([10, 11], [1, 2])]};
  const seen = plot({whole, near, range: {start: 12, end: 20}});
  assert.equal(seen.data, near);
  assert.equal(seen.isGood(whole, 200), false);
  assert.equal(seen.isGood(near, 200), true);
  seen.range = {start: 12, end: 60};
  assert.equal(seen.data, whole);
  assert.equal(seen.isGood(near, 200), false);
  seen.asked = 'another question';
  assert.equal(seen.isGood(near, 200), false);
  const exact = plot({whole: {...whole, sides: [side([0, 99], [1, 2])]}, range: {start: 12, end: 20}});
  assert.equal(exact.isGood(exact.whole, 200), true);
});

test('the scale takes all sides and shows a capacity that is near or asked for', () => {
  const data = {sides: [side([0], [100]), side([0], [300])]};
  assert.deepEqual(plain(plot().scale(data)), {limit: null, top: 315});
  assert.deepEqual(plain(plot({view: {max: '1'}}).scale(data)), {limit: 1000, top: 1050});
  assert.equal(plot().scale({sides: [side([0], [500])]}).limit, 1000);
  // What lives beside the series takes its part: 200 are left, and none when it takes all.
  assert.deepEqual(plain(plot().scale({sides: [side([0], [150], {beside_bytes: 800})]})), {limit: 200, top: 210});
  assert.equal(plot().scale({sides: [side([0], [150], {beside_bytes: 1200})]}).limit, 0);
});

test('a tooltip has all series of both reports at a place', () => {
  const one = side([3, 8], [70, 9], {series: [
    {label: 'Code', colour: '#1', values: [30, 9]}, {label: 'Data', colour: '#2', values: [40, 0]},
  ]});
  assert.deepEqual(plain(plot().rowsAt({sides: [one]}, 3)), [
    ['#2', 'Data', '40 B', '40 B'], ['#1', 'Code', '30 B', '30 B'], ['', 'Total', '70 B', '70 B'],
  ]);
  const other = side([8], [5], {name: 'Candidate', series: [{label: 'Data', colour: '#2', values: [5]}]});
  const both = {sides: [one, other]};
  assert.deepEqual(plain(plot().rowsAt(both, 8)), [
    ['#2', 'Data', '0 B', '5 B'], ['#1', 'Code', '9 B', '–'], ['', 'Total', '9 B', '5 B'],
  ]);
  assert.equal(plot().titleAt(both, 8), 'Tile 8');
  assert.equal(plot().titleAt(both, 3), 'Tile 3 | –');
  assert.equal(plot().placeNear(both, 7), 8);
});

test('the table holds the drawn values of the visible range', () => {
  const made = plot({whole: {asked: 'q', start: 0, end: 100, sides: [side([3, 8, 70], [7, 9, 4])]}});
  made.range = {start: 0, end: 20};
  assert.deepEqual(plain(made.table()), {
    columns: ['tile', 'Total (bytes)', 'total (bytes)'], rows: [[3, 7, 7], [8, 9, 9]],
  });
});

test('a cell is text for a spreadsheet, never a formula', () => {
  assert.equal(space.cell(5), '5');
  assert.equal(space.cell('a,"b"'), '"a,""b"""');
  assert.equal(space.cell('=1+1'), "'=1+1");
  assert.equal(space.csv({columns: ['a', 'b'], rows: [[1, 'x']]}), 'a,b\r\n1,x\r\n');
});

test('the visible range stands in the address, in whole places unless it is short', () => {
  const seen = plot();
  assert.equal(seen.rangeText(), '');
  seen.range = {start: 10.2, end: 80.9};
  assert.equal(seen.rangeText(), '10:81');
  seen.range = {start: 10.25, end: 20};
  assert.equal(seen.rangeText(), '10.25:20.00');
  seen.follow('30:40');
  assert.deepEqual(plain(seen.range), {start: 30, end: 40});
  seen.follow('nonsense');
  assert.deepEqual(plain(seen.range), {start: -0.5, end: 99.5});
});

test('a mark is whole places of the axis', () => {
  const seen = plot({draw() {}});
  seen.mark(20.4, 3.6);
  assert.deepEqual(plain(seen.marked), {start: 4, end: 20});
  seen.mark(-9, 1000);
  assert.deepEqual(plain(seen.marked), {start: 0, end: 99});
  seen.mark(5.1, 5.2);
  assert.equal(seen.marked, null);
});

test('controls are shown where they have something to do', () => {
  const {memory_fields: fields, liveness_fields: ofSteps} = clientside.charts;
  const hidden = (view) => plain(fields(view)).map((style) => style.display === 'none');
  assert.deepEqual(hidden({graph: 'tiles', breakdown: 'category', with: ''}), [false, true, false, true, true, true]);
  assert.deepEqual(hidden({graph: 'tiles', breakdown: 'variables', with: 'b'}), [false, false, false, false, true, true]);
  assert.deepEqual(hidden({graph: 'map', of: 'named', with: 'b'}), [true, false, true, true, false, false]);
  assert.deepEqual(hidden({graph: 'lives', with: ''}), [true, true, true, true, true, true]);
  assert.deepEqual(hidden({graph: 'map', with: ''}), [true, true, true, true, false, true]);
  assert.deepEqual(plain([ofSteps({with: ''}), ofSteps({with: 'b'})]), [{display: 'none'}, {}]);
});

// Two blocks at the bottom one after the other, and one above a gap.
const blocks = {offset: [0, 16, 400], size: [16, 16, 40], start: [0, 3, 0], end: [4, 7, 7]};

test('what lies at an address at a step is found', () => {
  assert.equal(space.blockAt(blocks, 0, 15), 0);
  assert.equal(space.blockAt(blocks, 0, 16), -1);
  assert.equal(space.blockAt(blocks, 3, 16), 1);
  assert.equal(space.blockAt(blocks, 4, 0), -1);
  assert.equal(space.blockAt(blocks, 6, 439), 2);
});

test('a gap reaches from the block below to the one above', () => {
  assert.deepEqual(plain(space.gapAt(blocks, 0, 200)), {from: 16, to: 400, below: 0, above: 2});
  assert.deepEqual(plain(space.gapAt(blocks, 3, 200)), {from: 32, to: 400, below: 1, above: 2});
  assert.deepEqual(plain(space.gapAt(blocks, 5, 3)), {from: 0, to: 16, below: -1, above: 1});
  const {to, above} = space.gapAt(blocks, 5, 500);
  assert.deepEqual([to, above], [Infinity, -1]);
});

test('addresses zoom at the pointer inside the tile', () => {
  const made = Object.create(space.LivesPlot.prototype);
  Object.assign(made, {
    data: {highest_bytes: 400, capacity_bytes: 10_000}, view: {}, hover() {}, draw() {}, changed() {},
  });
  made.setAddresses('');
  assert.deepEqual([made.low, made.high, made.addressText()], [0, 416, '']);
  made.zoomAddress(0.5, 0.25);
  assert.deepEqual([made.low, made.high], [52, 260]);
  made.zoomAddress(100, 0.25);
  assert.deepEqual([made.low, made.high], [0, 416]);
  made.setAddresses('100:200');
  assert.equal(made.addressText(), '100:200');
});

test('tiles of a map are as large as the room allows', () => {
  const one = {n_ipus: 1, n_rows: 23, n_columns: 64};
  assert.deepEqual(plain(space.layMap(one, 1200, 500)), {across: 1, down: 1, cell: 18, height: 446});
  assert.equal(space.layMap(one, 5000, 5000).cell, 24);
  const pod = space.layMap({...one, n_ipus: 64}, 1200, 500);
  assert.ok(pod.cell === 4 && pod.across * 64 * 4 <= 1200 && pod.across * pod.down >= 64);
  assert.equal(space.layMap({...one, n_ipus: 4}, 1200, 500).across, 2);
});

test('the scale of a map has a level for nothing and one for the highest value', () => {
  assert.deepEqual([0, 1, 50, 99, 100].map((value) => space.levelOf(value, 100)), [0, 1, 5, 9, 9]);
});

test('the scale of a change has as many levels down as up, and none for no change', () => {
  const levels = [-100, -76, -75, -1, 0, 1, 25, 26, 100].map((value) => space.levelOf(value, 100, 4));
  assert.deepEqual(levels, [-4, -4, -3, -1, 0, 1, 1, 2, 4]);
  assert.equal(space.levelOf(0, 0, 4), 0);
  assert.deepEqual([5, -2048, 0].map(space.signedBytes), ['+5 B', '−2.0 KiB', '±0 B']);
});

test('steps of two reports stand where both have them', () => {
  // Two blocks and one height of a side with three steps, of which the other side lacks the second.
  const header = {
    n_blocks: 2, n_heights: 1, n_own_places: 3, n_other_places: 3, names: ['a', 'b'], n_steps: 3, categories: [],
  };
  const text = JSON.stringify(header).padEnd(8 * Math.ceil((JSON.stringify(header).length + 4) / 8) - 4);
  const numbers = [0, 1, 1, 3, 0, 1, 0, 0, 0, 0, 2, 3, 1, 2, 3];
  const buffer = new ArrayBuffer(4 + text.length + 8 * 5 + 4 * numbers.length);
  new DataView(buffer).setUint32(0, text.length, true);
  new Uint8Array(buffer, 4, text.length).set(new TextEncoder().encode(text));
  new Int32Array(buffer, 4 + text.length + 8 * 5).set(numbers);
  const lives = space.unpackLives(buffer);
  assert.equal(lives.n_places, 4);
  assert.deepEqual([...lives.start], [0, 2]);
  assert.deepEqual([...lives.end], [2, 4]);
  assert.deepEqual([[...lives.first], [...lives.last]], [[0, 1], [1, 3]]);
  assert.equal(space.stepText({...lives, side: 0}, 3), 'Place 3 (baseline step 2, candidate step 2)');
  assert.equal(space.stepText({...lives, side: 1}, 1), 'Place 1 (candidate has none, baseline step 0)');
});
