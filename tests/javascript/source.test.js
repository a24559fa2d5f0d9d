// Answers of the trace's server: unpacking them, names and their paths, what the server refuses.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

/** Pack bars [start, duration, name, count, lane, kind, shares, longest name, its cycles] as the server does. */
function packed(lanes, bars) {
  const header = {start_cycle: 100, end_cycle: 900, n_pixels: 80, n_bars: bars.length, n_kinds: 3, has_longest: true, lanes};
  let text = JSON.stringify(header);
  while ((4 + text.length) % 8) text += ' ';
  const columns = [Float64Array, Float64Array, Int32Array, Int32Array, Uint16Array, Uint8Array]
    .map((Kind, column) => Buffer.from(Kind.from(bars.map((bar) => bar[column])).buffer));
  const merged = bars.filter((bar) => bar[3] > 1);
  const shares = Buffer.from(merged.flatMap((bar) => bar[6]));
  const padding = Buffer.alloc(-(27 * bars.length + shares.length) & 3);
  const longest = [Buffer.from(Int32Array.from(merged, (bar) => bar[7]).buffer), Buffer.from(Float32Array.from(merged, (bar) => bar[8]).buffer)];
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  const whole = Buffer.concat([length, Buffer.from(text), ...columns, shares, padding, ...longest]);
  return whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.length);
}

/** Return a source whose server gives one answer, and the addresses it was asked at. */
function sourceOf(answer) {
  const asked = [];
  const page = loadPage(['search.js', 'shown_text.js', 'trace/source.js', 'trace/tiles.js'], {
    ArrayBuffer, DataView, Uint8Array, Uint16Array, Int32Array, Float32Array, Float64Array,
    fetch: async (url) => { asked.push(url); return {ok: true, ...answer}; },
  });
  return {source: new page.tilescopeTrace.Source('a b'), asked};
}

test('bars are parted into lanes, and lanes into the tracks of IPUs', async () => {
  const lanes = [[0, 0, -1], [0, 0, -2], [0, 0, 0], [3, 1, 0]];
  const bars = [
    [0, 800, -1, 1, 0, 10], [0, 60, -1, 7, 1, 1, [0, 255, 0], 4, 41], [0, 50, 4, 1, 2, 0],
    [60, 5, -1, 9, 2, 1, [51, 0, 204], 5, 3], [1, 2, 6, 1, 3, 3],
  ];
  const {source, asked} = sourceOf({arrayBuffer: async () => packed(lanes, bars)});
  const answer = await source.window({start: 100, end: 900});
  assert.deepEqual(asked, ['/api/trace/a%20b/window?start=100&end=900']);
  assert.deepEqual([answer.start, answer.end, answer.pixels], [100, 900, 80]);
  assert.deepEqual([...answer.groups.keys()], ['0.0', '3.1']);
  const [run, level] = answer.groups.get('0.0').lanes;
  assert.deepEqual([run.level, run.n, level.level, level.n], [-1, 1, 0, 2]);
  assert.deepEqual([...level.start, ...level.duration], [0, 60, 50, 5]);
  assert.deepEqual([...level.name, ...level.count, ...level.kind], [4, -1, 1, 9, 0, 1]);
  assert.equal(level.kinds, 0b111);
  assert.deepEqual(plain([...level.mix]), [-1, 3]);
  const {steps} = answer.groups.get('0.0');
  assert.deepEqual([steps.n, steps.longestName[0], steps.longestCycles[0]], [1, 4, 41]);
  assert.deepEqual([level.longestName[level.mix[1] / 3], level.longestCycles[1]], [5, 3]);
  assert.equal(answer.groups.get('3.1').lanes[0].kinds, 1 << 3);
});

test('an answer without bars has lanes without bars', async () => {
  const {source} = sourceOf({arrayBuffer: async () => packed([[0, 0, 0]], [])});
  const {groups} = await source.window({});
  assert.equal(groups.get('0.0').lanes[0].n, 0);
});

test('a name is found anywhere in its path, whatever its case', async () => {
  const names = {labels: ['Net', 'conv1', 'reduce', 'FC'], parents: [-1, 0, 1, 0]};
  const {source} = sourceOf({text: async () => JSON.stringify(names)});
  assert.equal(source.path(2), '');
  await source.loadNames();
  assert.equal(source.path(2), 'Net/conv1/reduce');
  assert.deepEqual(plain([...source.matches(' CONV1 ')]), [0, 1, 1, 0]);
  assert.deepEqual(plain([...source.matches('net/f')]), [0, 0, 0, 1]);
  assert.deepEqual(plain([...source.matches('  ')]), [0, 0, 0, 0]);
});

test('a refusal is told in the words of the server, or by its number', async () => {
  const refused = {ok: false, status: 503};
  const told = sourceOf({...refused, text: async () => '{"message": "Too many questions."}'});
  await assert.rejects(told.source.json('extent'), {message: 'Too many questions.'});
  const silent = sourceOf({...refused, text: async () => '<html>'});
  await assert.rejects(silent.source.json('extent'), {message: /did not answer \(503\)/});
});
