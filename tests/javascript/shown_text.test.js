// Names as they are shown. Python's texts are the reference: test_scripts.py hands its answers over.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage, plain} = require('./page.js');

const {tilescope_text: text} = loadPage(['shown_text.js']);

test('texts are shown as the server shows them', {skip: !process.env.SHOWN_TEXTS}, () => {
  for (const [raw, shown] of JSON.parse(process.env.SHOWN_TEXTS)) assert.equal(text.shown(raw), shown, raw);
});

test('answers are read without marks, escaped or not; what goes back stays', () => {
  const answer = {label: 'a\u202eb', rows: [['\u200b', 1, null, true]], key: 'a\u202eb', places: {op: '\u2066'}};
  const shown = {label: 'a\ufffdb', rows: [['\ufffd', 1, null, true]], key: 'a\u202eb', places: {op: '\u2066'}};
  const plainText = JSON.stringify(answer);
  const escaped = plainText.replace(/[^ -~]/g, (char) => '\\u' + char.charCodeAt(0).toString(16).padStart(4, '0'));
  for (const one of [plainText, escaped]) assert.deepEqual(plain(text.parse(one)), shown);
});
