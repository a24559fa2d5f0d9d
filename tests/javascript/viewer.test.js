// What the trace's viewer computes without drawing: ranges, motion, which bar lies under the pointer.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const space = loadPage([
  'search.js',
  'axis/motion.js', 'trace/data.js', 'trace/motion.js', 'trace/layout.js', 'trace/paint.js', 'trace/pins.js', 'trace/tiles.js',
]).tilescopeTrace;

/** Return a viewer of the cycles 0 to 1,000 with the methods of all parts, which draws nothing. */
function viewer(members = {}) {
  const made = {};
  for (const part of space.parts) Object.defineProperties(made, Object.getOwnPropertyDescriptors(part));
  return Object.assign(made, {
    extent: {start: 0, end: 1000}, range: {start: 0, end: 1000}, scroller: {clientWidth: 592, scrollTop: 0},
    goal: null, state: {mark: null}, data: new Map(), whole: new Map(),
    draw() {}, hover() {}, changed() {}, request() {},
    moveTo(start, end) { this.range = this.bounded(start, end); },
  }, members);
}

test('a range stays inside the trace and keeps its length', () => {
  assert.deepEqual(plain(viewer().bounded(-50, 150)), {start: 0, end: 200});
  assert.deepEqual(plain(viewer().bounded(900, 1100)), {start: 800, end: 1000});
  assert.deepEqual(plain(viewer().bounded(-500, 5000)), {start: 0, end: 1000});
  assert.deepEqual(plain(viewer().bounded(500, 501)), {start: 496.5, end: 504.5});
});

test('zoom keeps the cycle under the pointer, pan stops at the ends', () => {
  const seen = viewer({range: {start: 200, end: 400}});
  seen.zoomAt(0.5, 0.25);
  assert.deepEqual(plain(seen.range), {start: 225, end: 325});
  seen.pan(-10);
  assert.deepEqual(plain(seen.range), {start: 0, end: 100});
  assert.equal(seen.positionAt(250), 50);
  assert.equal(seen.pixelOf(50), 250);
});

test('the selection is shown with some room around it', () => {
  const seen = viewer({state: {mark: {start: 400, end: 600}}});
  seen.focusSelection();
  assert.deepEqual(plain(seen.range), {start: 390, end: 610});
  const slice = viewer({selected: {start_cycle: 100, end_cycle: 200}});
  slice.focusSelection();
  assert.deepEqual(plain(slice.range), {start: 95, end: 205});
  const nothing = viewer();
  nothing.focusSelection();
  assert.deepEqual(plain(nothing.range), {start: 0, end: 1000});
});

test('a mark is whole cycles from low to high', () => {
  const seen = viewer({visibleGroups: () => []});
  seen.mark(20.6, 3.2);
  assert.deepEqual(plain(seen.state.mark), {start: 3, end: 21});
  seen.mark(5.1, 5.2);
  assert.equal(seen.state.mark, null);
});

test('the finer answer that covers what is seen is drawn, else the one of the whole trace', () => {
  const group = {key: '0.0', how: 'flame'};
  const near = {start: 100, end: 300, perPixel: 0.4, how: 'flame'};
  const far = {start: 0, end: 1000, perPixel: 2, how: 'flame'};
  const seen = viewer({
    range: {start: 120, end: 280}, data: new Map([['0.0', near]]), whole: new Map([['0.0', far]]),
  });
  assert.equal(seen.best(group), near);
  seen.range = {start: 120, end: 500};
  assert.equal(seen.best(group), far);
  assert.equal(seen.best({key: '0.0', how: 'flat'}), null);
  seen.range = {start: 0, end: 1000};
  assert.equal(seen.isGood(group), true);
  seen.range = {start: 0, end: 100};
  assert.equal(seen.isGood(group), false);
});

test('the bar under a cycle is found, and one beside it within reach', () => {
  const lane = {n: 3, start: [10, 20, 50], duration: [5, 10, 1]};
  const found = (cycle, reach) => space.barAt(lane, cycle, reach);
  assert.deepEqual([9, 10, 14, 15, 29, 30, 50, 51].map((cycle) => found(cycle, 0)),
    [-1, 0, 0, -1, 1, -1, 2, -1]);
  assert.deepEqual([found(9, 2), found(16, 2), found(49, 2), found(52, 2)], [0, 0, 2, 2]);
});

test('pinned rows come first as long as they leave room, in the order of pinning', () => {
  const row = (key, height = 100) => ({key, height, isPinned: false});
  const rows = [row('0.0'), row('0.0.t3', 19), row('0.1'), row('1.0')];
  const order = (pins, most) => plain(
    space.pinnedFirst(rows, pins, most).map((one) => one.key + (one.isPinned ? '!' : '')),
  );
  assert.deepEqual(order([], 500), ['0.0', '0.0.t3', '0.1', '1.0']);
  assert.deepEqual(order(['1.0', '0.0.t3', '9.9'], 500), ['1.0!', '0.0.t3!', '0.0', '0.1']);
  assert.deepEqual(order(['1.0', '0.1', '0.0.t3'], 250), ['1.0!', '0.0.t3!', '0.0', '0.1']);
  assert.deepEqual(plain(space.pinsOf('0.0,x,1.2.1.t45,0.0,1.0.2,3')), ['0.0', '1.2.1.t45']);
});

test('the pointer finds pinned rows where they stand, the others where they were scrolled to', () => {
  const lanes = [{level: 0, top: 0, height: 19}];
  const data = {lanes, start: 0, end: 1000, how: 'flat', height: 19};
  const group = (key, top, isPinned) => ({key, top, isPinned, how: 'flat', height: 19});
  const seen = viewer({
    scroller: {scrollTop: 50}, data: new Map([['a', data], ['b', data], ['c', data]]),
    groups: [group('a', 28, true), group('b', 57, false), group('c', 110, false)],
  });
  assert.equal(seen.pinnedBottom, 52);
  assert.deepEqual([30, 53, 61].map((y) => seen.laneAt(y)?.group.key), ['a', undefined, 'c']);
  seen.scroller.scrollTop = 0;
  assert.deepEqual([30, 53, 61].map((y) => seen.laneAt(y)?.group.key), ['a', undefined, 'b']);
});

test('a match scrolls to the middle in both directions, unless it is to be seen', () => {
  const scrolled = (top, scroll) => space.scrollTo(top, top + 20, scroll, 24, 524);
  assert.equal(scrolled(100, 0), 0);
  assert.equal(scrolled(100, 60), 60);
  assert.equal(scrolled(1000, 0), 1010 - 274);
  assert.equal(scrolled(300, 900), 310 - 274);
  assert.equal(scrolled(30, 900), 0);
});

test('a mark takes the edge of a single slice within six pixels, not with Alt', () => {
  const lane = {
    level: 0, height: 18, n: 4, start: [0, 100, 300, 302], duration: [90, 200, 2, 60], mix: [-1, -1, -1, 0],
  };
  const near = (cycle, reach) => space.edgeNear(lane, cycle, reach);
  assert.deepEqual([88, 95, 96, 296, 330].map((cycle) => near(cycle, 6)), [90, 90, 100, 300, NaN]);
  // The slice at 300 is too short, and the bar at 302 is several slices.
  assert.deepEqual([304, 363].map((cycle) => near(cycle, 6)), [300, NaN]);
  const data = {start: 1000, lanes: [lane]};
  const members = {
    range: {start: 1000, end: 1500}, visibleGroups: () => [{form: 'open'}], best: () => data,
  };
  const seen = viewer(members);
  seen.mark(1103, 1297);
  assert.deepEqual(plain(seen.state.mark), {start: 1100, end: 1300});
  seen.isSnapOff = true;
  seen.mark(1103, 1297);
  assert.deepEqual(plain(seen.state.mark), {start: 1103, end: 1297});
});
