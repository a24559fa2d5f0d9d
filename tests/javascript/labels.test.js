// What is drawn of a name: the examples of the rule, and what holds for all names.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage} = require('./page.js');

const space = loadPage(['trace/labels.js']).tilescopeTrace;
const WIDE = 6;
const measure = (text) => WIDE * [...text].length;

function texts(names, room, parent) {
  const labels = [...names];
  const parents = labels.map(() => -1);
  if (parent) {
    parents.fill(labels.length);
    labels.push(parent);
    parents.push(-1);
  }
  const from = space.distinctions(labels, parents);
  return names.map((name, id) => space.labelText(
    name, parent || '', {unique: from.unique[id], near: from.near[id]}, room * WIDE, measure,
  ));
}

test('a name that fits is drawn in full', () => {
  assert.deepEqual(texts(['Conv__440', 'x'], 9), ['Conv__440', 'x']);
});

test('the part that differs stays, with as much of the head as fits', () => {
  assert.deepEqual(texts(['Conv__440', 'Conv__441'], 7), ['Con…440', 'Con…441']);
  assert.deepEqual(texts(['Conv__440', 'Conv__441'], 5), ['C…440', 'C…441']);
  assert.deepEqual(texts(['layer17', 'layer18'], 6), ['lay…17', 'lay…18']);
  assert.deepEqual(texts(['conv_stage1_block0_2a', 'conv_stage1_block0_2b'], 16), ['conv_stage1_b…2a', 'conv_stage1_b…2b']);
  assert.deepEqual(texts(['poolRows', 'poolColumns'], 6), ['p…Rows', '…Colu…']);
});

test('names that differ at their head lose their end, but no short number', () => {
  assert.deepEqual(texts(['convolution', 'hand over', 'layer17'], 5), ['conv…', 'hand…', 'la…17']);
  assert.deepEqual(texts(['convolution', 'hand over'], 7), ['convol…', 'hand o…']);
});

test('a name that begins with its parent does not begin twice', () => {
  assert.deepEqual(texts(['conv1/weights', 'conv1/bias'], 8, 'conv1'), ['weights', 'bias']);
  assert.deepEqual(texts(['block_reduce'], 7, 'block'), ['reduce']);
  assert.deepEqual(texts(['blocks', 'other'], 5, 'block'), ['bloc…', 'other']);
});

test('fewer than three letters or digits are nothing', () => {
  assert.deepEqual(texts(['convolution', 'other'], 3), ['', '']);
  assert.deepEqual(texts(['Conv__1', 'Conv__2'], 2), ['', '']);
  assert.deepEqual(texts(['a'], 1), ['a']);
});

test('names that end alike are told apart by what is before', () => {
  const names = ['Conv_a__440', 'Conv_b__440', 'Conv_c__441', 'Pool_a__440'];
  const found = texts(names, 8);
  assert.equal(new Set(found).size, 4);
  const layers = ['stage0_block0_branch2a', 'stage0_block0_branch2b', 'stage0_block1_branch2a', 'stage0_block1_branch2b'];
  assert.deepEqual(texts(layers, 19), [
    'stage0_b…0_branch2a', 'stage0_b…0_branch2b', 'stage0_b…1_branch2a', 'stage0_b…1_branch2b',
  ]);
  // Where that does not fit, neighbours differ.
  assert.deepEqual(texts(layers, 9), ['stage0…2a', 'stage0…2b', 'stage0…2a', 'stage0…2b']);
});

test('any name fits its room, and different siblings get different texts', () => {
  const words = ['conv', 'Pool', 'stage', 'block', '_', '__', '/', '1', '12', '440', 'bn', 'ReLU', '😀', 'שלום', 'é'];
  let seed = 1;
  const random = (n) => { seed = seed * 48271 % 2147483647; return seed % n; };
  for (let round = 0; round < 200; round += 1) {
    const names = [...new Set(Array.from({length: 8}, () => Array.from(
      {length: 1 + random(6)}, () => words[random(words.length)]).join('')))];
    const from = space.distinctions(names, names.map(() => -1));
    for (const room of [2, 5, 8, 13, 40]) {
      const found = texts(names, room);
      found.forEach((text, i) => {
        assert.ok(measure(text) <= room * WIDE, names[i] + ' as ' + text);
        assert.equal(text.toWellFormed(), text);
      });
      // The part that differs is there in full, or the name is cut.
      const whole = found.filter((text, i) => text && text.endsWith(names[i].slice(Math.max(0, from.unique[i]))));
      assert.equal(new Set(whole).size, whole.length, found.join(' | '));
    }
  }
});

test('long names and empty ones take no time', () => {
  const long = 'x'.repeat(10000);
  const since = performance.now();
  assert.equal(space.labelText(long, '', space.ALONE, 60, measure), 'xxxxxxxxx…');
  assert.equal(space.labelText('', '', space.ALONE, 60, measure), '');
  assert.ok(texts([long + '1', long + '2'], 10)[0].length <= 10);
  assert.ok(performance.now() - since < 200);
});

test('texts are kept by name and room, until the names change', () => {
  let n = 0;
  const source = {labels: ['Conv__440', 'Conv__441'], parents: [-1, -1], label: (id) => source.labels[id]};
  const kept = new space.Labels(source, (text) => { n += 1; return measure(text); });
  const first = kept.text(0, 45);
  const before = n;
  assert.equal(kept.text(0, 46), first);
  assert.equal(n, before);
  source.labels = ['Conv__440'];
  source.parents = [-1];
  assert.equal(kept.text(0, 60), 'Conv__440');
});
