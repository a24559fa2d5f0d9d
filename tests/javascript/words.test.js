// Numbers, times and ticks of the trace as people read them.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const {tilescopeTrace: space, tilescopeAxis: axis} = loadPage(['axis/words.js', 'trace/words.js']);

test('counts are rounded and grouped by thousands', () => {
  assert.equal(space.count(1234567.6), '1,234,568');
  assert.equal(space.plural(1, 'cycle', 'cycles'), '1 cycle');
  assert.equal(space.plural(2000, 'cycle', 'cycles'), '2,000 cycles');
});

test('a time has three digits in the largest unit that fits', () => {
  const hertz = 1e9;
  const texts = [[2e9, '2 s'], [1.2346e6, '1.23 ms'], [1500, '1.5 µs'], [999, '999 ns'], [0, '0 ns']];
  for (const [cycles, text] of texts) assert.equal(space.seconds(cycles, hertz), text);
  assert.equal(space.seconds(10, 0), '');
});

test('ticks stand at 1, 2 or 5 times a power of ten, inside the range, not too close', () => {
  assert.deepEqual(plain(space.ticks(0, 1000, 1000, 110)), {step: 200, ticks: [0, 200, 400, 600, 800, 1000]});
  assert.deepEqual(plain(space.ticks(95, 305, 300, 110)), {step: 100, ticks: [100, 200, 300]});
  for (const [start, end, pixels] of [[3, 1e9 + 1, 777], [5, 9, 2000], [0, 1, 50]]) {
    const {step, ticks} = space.ticks(start, end, pixels, 110);
    assert.ok(step >= 1);
    assert.ok(ticks.every((tick) => tick >= start && tick <= end && tick % step === 0));
    assert.ok((step / (end - start)) * pixels >= 110 * 0.99 || step === 1);
  }
});

test('labels of neighbouring ticks differ', () => {
  for (const step of [1, 20, 500, 2e3, 5e4, 1e6, 2e8]) {
    const labels = [0, 1, 2, 3].map((i) => space.tickLabel(1e9 + i * step, step));
    assert.equal(new Set(labels).size, 4, labels.join(' '));
  }
  assert.equal(space.tickLabel(2_500_000, 500_000), '2.5 M');
  assert.equal(space.tickLabel(999, 1), '999');
});

test('ticks of bytes are round, start at 0, reach the top, and have labels of their own', () => {
  const {tilescopeFormats: formats} = loadPage(['formats.js']);
  for (const highest of [1, 900, 1024, 5000, 638_976, 940_572_672, 1e12]) {
    const ticks = axis.byteTicks(highest, 5);
    assert.equal(ticks[0], 0);
    assert.ok(ticks[ticks.length - 1] >= highest);
    assert.ok(ticks.length >= 2 && ticks.length <= 9, `${ticks.length} ticks to ${highest}`);
    const labels = ticks.map((tick) => formats.tilescopeBytes(tick));
    assert.equal(new Set(labels).size, labels.length, labels.join(' '));
  }
  assert.deepEqual(plain(axis.byteTicks(0, 5)), [0]);
});
