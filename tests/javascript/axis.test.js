// The motion, keys and drag that all components with an axis share.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const {tilescopeAxis: space} = loadPage(['axis/words.js', 'axis/motion.js', 'axis/input.js'], {
  matchMedia: () => ({matches: false}),
});

/** Return a component over the positions 0 to 100 that draws nothing and notes what it is told. */
function component(members = {}) {
  const told = [];
  const note = (name) => (...values) => told.push([name, ...values]);
  return Object.assign(Object.create(space.motion), {
    extent: {start: 0, end: 100}, range: {start: 0, end: 100}, width: 200, goal: null, told,
    draw: note('draw'), hover() {}, request: note('request'), changed() {},
    mark: note('mark'), click: note('click'), focusSelection: note('focus'),
  }, members);
}

/** Return an element whose listeners can be called by name. */
function element() {
  const listeners = {};
  return {
    addEventListener: (name, listener) => { listeners[name] = listener; },
    setPointerCapture() {},
    fire: (name, event) => listeners[name]({preventDefault() {}, deltaX: 0, deltaMode: 0, ...event}),
  };
}

const place = (event) => ({x: event.x, y: event.y});

test('the shortest range is the component\'s own', () => {
  assert.deepEqual(plain(component({shortest: 2}).bounded(50, 50)), {start: 49, end: 51});
  assert.deepEqual(plain(component().bounded(50, 50)), {start: 46, end: 54});
  const few = component({shortest: 2, extent: {start: -0.5, end: 0.5}});
  assert.deepEqual(plain(few.bounded(-3, 9)), {start: -0.5, end: 0.5});
});

test('a smooth motion asks for data on its way and arrives', () => {
  const seen = component();
  seen.moveTo(20, 40, true);
  assert.deepEqual(plain(seen.target()), {start: 20, end: 40});
  assert.deepEqual(plain(seen.range), {start: 0, end: 100});
  seen.goal.since -= 1000;
  seen.advance();
  assert.deepEqual(plain(seen.range), {start: 20, end: 40});
  assert.equal(seen.goal, null);
  assert.ok(seen.told.some(([name]) => name === 'request'));
});

test('the wheel zooms at the pointer and pans with Shift', () => {
  const [seen, box] = [component(), element()];
  space.connectWheel(seen, box, place);
  box.fire('wheel', {x: 50, y: 0, deltaY: -240});
  assert.ok(seen.range.end - seen.range.start < 100);
  assert.equal(Math.round(seen.positionAt(50)), 25);
  const {start} = seen.range;
  box.fire('wheel', {x: 50, y: 0, deltaY: 20, shiftKey: true});
  assert.ok(seen.range.start > start);
});

test('the wheel scrolls the page where there is nothing to zoom or pan', () => {
  const scrolls = (range, event, more = {}) => {
    const [seen, box] = [component({range, ...more}), element()];
    space.connectWheel(seen, box, place);
    let isTaken = false;
    box.fire('wheel', {x: 50, y: 0, ...event, preventDefault() { isTaken = true; }});
    return !isTaken;
  };
  const whole = {start: 0, end: 100};
  assert.equal(scrolls(whole, {deltaY: 100}), true);
  assert.equal(scrolls(whole, {deltaY: 100, shiftKey: true}), true);
  assert.equal(scrolls(whole, {deltaX: 100, deltaY: 0}), true);
  assert.equal(scrolls(whole, {deltaY: -100}), false);
  assert.equal(scrolls({start: 40, end: 60}, {deltaY: 100}), false);
  assert.equal(scrolls({start: 40, end: 60}, {deltaY: 100, shiftKey: true}), false);
  assert.equal(scrolls({start: 46, end: 54}, {deltaY: -100}), true);
  const few = {start: -0.5, end: 0.5};
  assert.equal(scrolls(few, {deltaY: -100}, {shortest: 2, extent: few}), true);
});

test('a drag pans, with Shift it marks, and a press is a click', () => {
  const [seen, box] = [component({range: {start: 40, end: 60}}), element()];
  space.connectDrag(seen, box, place, {isInside: () => true, isRange: (event) => event.shiftKey === true});
  box.fire('pointerdown', {button: 0, x: 100, y: 5});
  box.fire('pointermove', {x: 150, y: 5});
  box.fire('pointerup', {x: 150, y: 5});
  assert.deepEqual(plain(seen.range), {start: 35, end: 55});
  box.fire('pointerdown', {button: 0, x: 0, y: 5, shiftKey: true});
  box.fire('pointermove', {x: 500, y: 5});
  box.fire('pointerup', {x: 500, y: 5});
  box.fire('pointerdown', {button: 0, x: 10, y: 5});
  box.fire('pointerup', {x: 11, y: 5});
  const told = plain(seen.told.filter(([name]) => name === 'mark' || name === 'click'));
  assert.deepEqual(told.map(([name]) => name), ['mark', 'click']);
  assert.deepEqual(told[0].slice(1), [35, 55]);
});

test('keys move, those of the browser stay the browser\'s', () => {
  const seen = component({range: {start: 40, end: 60}});
  const keys = space.motionKeys(seen);
  const press = (key, more = {}) => space.pressKey(keys, {key, preventDefault() {}, ...more});
  assert.equal(press('s', {ctrlKey: true}), false);
  assert.equal(press('x'), false);
  assert.equal(press('W'), true);
  const {start, end} = seen.target();
  assert.ok(end - start < 20);
  press('0');
  assert.deepEqual(plain(seen.target()), {start: 0, end: 100});
  press('f');
  assert.ok(seen.told.some(([name]) => name === 'focus'));
});
