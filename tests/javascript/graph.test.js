// What the graph of operations computes without drawing.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const page = loadPage([
  'search.js',
  'formats.js', 'axis/words.js', 'axis/motion.js', 'axis/input.js', 'chart/frame.js', 'chart/map.js',
  'graph_paint.js', 'graph_view.js',
]);
const {tilescopeGraph: space} = page;

/** Return a box at a place. */
const box = (x, row, members = {}) => ({key: x + '/' + row, x, row, around: [], is_group: false, ...members});

test('figures of both reports, and what one lacks', () => {
  const side = (cycles) => ({cycles, code_bytes: 2 * cycles, memory_bytes: 3 * cycles});
  const found = (baseline, candidate, metric) => plain(space.figures({baseline, candidate}, metric));
  assert.deepEqual(found(side(5), side(7), 'code'), {before: 10, after: 14, delta: 4, most: 14});
  assert.deepEqual(found(side(5), null, 'cycles'), {before: 5, after: null, delta: -5, most: 5});
  assert.deepEqual(found(null, side(2), 'memory'), {before: null, after: 6, delta: 6, most: 6});
});

test('shades of changes are by their part of the largest', () => {
  assert.deepEqual([0, 1, 25, 26, 100, -1, -75, -76].map((delta) => space.shadeOf(delta, 100)),
    [0, 1, 1, 2, 4, -1, -3, -4]);
});

test('texts are legible on light and dark colours', () => {
  assert.deepEqual(['#ffffff', '#dce8fb', '#0b3a8c', '#000000', '#a9cbff', '#22334f'].map(space.inkOn),
    ['#101418', '#101418', '#ffffff', '#ffffff', '#101418', '#ffffff']);
});

test('a name keeps its ends, a stretch its beginning', () => {
  const measure = (text) => text.length;
  assert.equal(space.fitted('short', 5, measure), 'short');
  assert.equal(space.fitted('abcdefghij', 7, measure), 'abc…hij');
  assert.equal(space.fitted('abc', 0, measure), '');
  assert.equal(space.fittedLabel('first … last', 20, measure), 'first … last');
  assert.equal(space.fittedLabel('first … last', 8, measure), 'first …');
});

test('the box at a point is found, and the next one in a direction', () => {
  const boxes = [box(0.5, 0), box(1.5, 0), box(0.5, 1), box(1.7, 1), box(0.5, 4)];
  const at = (number) => space.at(boxes[number].x, boxes[number].row);
  assert.deepEqual(boxes.map((_, number) => space.boxAt(boxes, at(number))), [0, 1, 2, 3, 4]);
  assert.equal(space.boxAt(boxes, {x: at(0).x, y: (at(0).y + at(2).y) / 2}), -1);
  const next = (from, direction) => space.nextBox(boxes, from, direction);
  assert.deepEqual([next(0, [1, 0]), next(0, [0, 1]), next(1, [0, 1]), next(2, [0, 1])], [1, 2, 3, 4]);
  assert.deepEqual([next(0, [-1, 0]), next(4, [0, 1]), next(4, [0, -1])], [0, 4, 2]);
});

test('paths in the address may hold commas and slashes', () => {
  const paths = ['net/a,b/', '~3/'];
  assert.deepEqual(plain(space.pathsOf(space.textOf(paths))), paths);
  assert.deepEqual(plain(space.pathsOf('')), []);
});

test('a line is drawn down through its places, around columns, and back at the side', () => {
  const calls = [];
  const context = new Proxy({}, {
    get: (_, name) => (...values) => calls.push([name, ...values]),
    set: () => true,
  });
  const boxes = [box(0.5, 0), box(0.5, 2), box(2.2, 0)];
  const draw = (edge) => {
    calls.length = 0;
    space.paintEdge(context, boxes, {route: [], folds: [], is_backward: false, ...edge}, '#000000', 1);
    return calls.map(([name]) => name);
  };
  const bends = draw({source: 0, target: 1, route: [[1.2, 1]]}).filter((name) => name === 'bezierCurveTo');
  assert.equal(bends.length, 2);
  const place = space.at(1.2, 1);
  assert.deepEqual(calls.find(([name]) => name === 'bezierCurveTo').slice(-2), [place.x, place.y]);
  const over = draw({source: 1, target: 2, folds: [[0, 1.35, 2, 0]]});
  assert.equal(over.filter((name) => name === 'arcTo').length, 4);
  const turns = calls.filter(([name]) => name === 'arcTo').map(([, x]) => Math.round(x));
  assert.equal(turns[1], Math.round(space.at(1.35, 0).x), 'between the columns');
  const dashes = (edge) => draw(edge) && calls.filter(([name]) => name === 'setLineDash').map(([, one]) => [...one]);
  assert.deepEqual(dashes({source: 1, target: 0, is_backward: true}), [[5, 4], []]);
  assert.deepEqual(dashes({source: 1, target: 0}), [[], []], 'upwards, but not in time');
  assert.deepEqual(dashes({source: 0, target: 1}), []);
});
