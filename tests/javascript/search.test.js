// What a typed text finds. Python's search is the reference: test_scripts.py hands its answers over.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const {tilescope_search: search} = loadPage(['search.js']);

test('texts are taken apart and found as on the command line', {skip: !process.env.SEARCHES}, () => {
  for (const [text, label, words, fits] of JSON.parse(process.env.SEARCHES)) {
    assert.deepEqual(plain(search.words(text)), words, text);
    assert.equal(search.fit(search.words(text), label), fits, text + ' in ' + label);
  }
});

test('nothing typed finds everything', () => {
  assert.equal(search.fit(search.words('  '), 'any'), true);
});
