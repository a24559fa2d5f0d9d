// A page as far as the scripts' logic needs one: an address, storage, elements by their id.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const ASSETS = path.join(__dirname, '../../webapp/assets');

/**
 * Run scripts of webapp/assets in a page of their own and return its window.
 *
 * @param {string[]} scripts - Below webapp/assets, in the order in which they are loaded.
 * @param {Record<string, unknown>} [globals] - What the page has besides.
 */
function loadPage(scripts, globals = {}) {
  const listeners = [];
  const page = {
    console, URLSearchParams, TextDecoder, setTimeout, clearTimeout, performance,
    addEventListener: (name, listener) => listeners.push([name, listener]),
    location: {pathname: '/', search: '', hash: '', href: 'http://localhost/'},
    document: {
      addEventListener: (name, listener) => listeners.push([name, listener]),
      getElementById: () => null,
      documentElement: {},
    },
    listeners,
    ...globals,
  };
  page.window = page;
  vm.createContext(page);
  for (const script of scripts) {
    const file = path.join(ASSETS, script);
    vm.runInContext(fs.readFileSync(file, 'utf8'), page, {filename: file});
  }
  return page;
}

/** Return a value as this realm's own objects, so that deepEqual compares what they hold. */
const plain = (value) => JSON.parse(JSON.stringify(value));

module.exports = {loadPage, plain};
