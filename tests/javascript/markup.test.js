// Content made of data in one go, and the check that no script leaks a name.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

test('a tree of data becomes elements, texts stay texts', () => {
  const React = {
    Fragment: 'fragment',
    createElement: (tag, properties, ...children) => [tag, properties, ...children],
    useMemo: (make) => make(),
  };
  const {tilescope_markup: {Markup}} = loadPage(['markup.js'], {React});
  const tree = [{t: 'b', p: {className: 'x'}, c: ['<i>', null, {t: 'br'}]}, 3];
  assert.deepEqual(plain(Markup({tree})),
    ['fragment', null, ['b', {className: 'x'}, '<i>', null, ['br', null]], 3]);
});

test('a long path may break after its slashes', () => {
  const React = {
    Fragment: 'fragment',
    createElement: (tag, properties, ...children) => children.length ? [tag, ...children] : tag,
    useMemo: (make) => make(),
  };
  const {tilescope_markup: {Markup, breakable}} = loadPage(['markup.js'], {React});
  const name = 'conv_stage3_block0/BiasAdd/convolution/';
  assert.deepEqual(plain(breakable(name)), ['fragment', 'conv_stage3_block0/', 'wbr', 'BiasAdd/', 'wbr', 'convolution/']);
  assert.equal(breakable('layer1/conv'), 'layer1/conv');
  assert.equal(breakable(12), 12);
  assert.deepEqual(plain(Markup({tree: {t: 'a', c: [name]}})), ['a', plain(breakable(name))]);
});

test('every script keeps its names to itself', () => {
  const assets = path.join(__dirname, '../../webapp/assets');
  const scripts = fs.readdirSync(assets, {recursive: true})
    .filter((name) => name.endsWith('.js') && !name.endsWith('.min.js'));
  assert.ok(scripts.length > 10);
  for (const script of scripts) {
    const text = fs.readFileSync(path.join(assets, script), 'utf8');
    assert.match(text, /^(\/\/.*\n)+\(function \(\) \{\n {2}'use strict';\n/, script);
  }
});
