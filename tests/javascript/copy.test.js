// Buttons that copy a command.
'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const {loadPage} = require('./page.js');

function clickOn(button, writeText) {
  const page = loadPage(['copy.js'], {navigator: {clipboard: {writeText}}, setTimeout: () => 0});
  const [, listener] = page.listeners.find(([name]) => name === 'click');
  return listener({target: {closest: (selector) => selector === '[data-copy]' ? button : null}});
}

test('a button copies its text and says so', async () => {
  const copied = [];
  const button = {dataset: {copy: 'tilescope run net.onnx'}, textContent: 'Copy'};
  await clickOn(button, async (text) => { copied.push(text); });
  assert.deepEqual(copied, ['tilescope run net.onnx']);
  assert.equal(button.textContent, 'Copied');
});

test('without a clipboard it asks to select the text', async () => {
  const button = {dataset: {copy: 'text'}, textContent: 'Copy'};
  await clickOn(button, async () => { throw new Error('not allowed'); });
  assert.equal(button.textContent, 'Select the text');
});

test('other clicks do nothing', async () => {
  await clickOn(null, () => { throw new Error('must not be called'); });
});
