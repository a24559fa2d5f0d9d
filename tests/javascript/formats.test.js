// The formats of grids. Python's formats are the reference: test_scripts.py hands their answers over.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage} = require('./page.js');

const {tilescopeFormats: formats} = loadPage(['formats.js']);

test('bytes are written as the command line writes them', {skip: !process.env.BYTES_AS_TEXT}, () => {
  for (const [bytes, text] of JSON.parse(process.env.BYTES_AS_TEXT)) {
    assert.equal(formats.tilescopeBytes(bytes), text);
  }
});

test('a missing value is a dash', () => {
  const names = ['Bytes', 'Count', 'Percent', 'Signed', 'SignedBytes', 'Address'];
  for (const name of names) {
    for (const nothing of [null, undefined]) assert.equal(formats['tilescope' + name](nothing), '–', name);
  }
  assert.equal(formats.tilescopeExactBytes(null), '');
});

test('a lifetime names its first and last step', () => {
  assert.equal(formats.tilescopeLife({start: 1200, end: 1201}), '1,200');
  assert.equal(formats.tilescopeLife({start: 3, end: 7}), '3 to 6');
  assert.equal(formats.tilescopeLife({start: null, end: null}), 'always');
  assert.equal(formats.tilescopeLife(undefined), '');
});

test('signs, percentages and addresses', () => {
  assert.equal(formats.tilescopeSigned(1200), '+1,200');
  assert.equal(formats.tilescopeSigned(-1), '-1');
  assert.equal(formats.tilescopeSigned(0), '0');
  assert.equal(formats.tilescopeSignedBytes(2048), '+2.0 KiB');
  assert.equal(formats.tilescopeSignedBytes(0), '0');
  assert.equal(formats.tilescopePercent(0.123456), '12.35 %');
  assert.equal(formats.tilescopePercent(1e-6), '< 0.01 %');
  assert.equal(formats.tilescopePercent(8.3e-5), '< 0.01 %');
  assert.equal(formats.tilescopePercent(0), '0.00 %');
  assert.equal(formats.tilescopeAddress(0x4c000), '0x4c000  311,296');
  assert.equal(formats.tilescopeCount('many'), 'many');
});
