// Names as they may be shown: without characters that hide or disguise others, such as direction
// marks. The same as analyser/shown_text.py. Answers of the server are read with `parse`.
(function () {
  'use strict';
  const HOSTILE = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
  /** An escape of JSON, or a character as such: most answers have neither. */
  const SUSPECT = /\\u|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
  /** What goes back to the server or into an address as it is. */
  const EXACT = new Set(['around', 'href', 'id', 'key', 'parameters', 'path', 'places', 'select']);

  const shown = (text) => text.replace(HOSTILE, '�');

  function shownIn(value) {
    if (typeof value === 'string') return shown(value);
    if (Array.isArray(value)) return value.map(shownIn);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value)
      .map(([name, part]) => [name, EXACT.has(name) ? part : shownIn(part)]));
  }

  function parse(text) {
    const value = JSON.parse(text);
    return SUSPECT.test(text) ? shownIn(value) : value;
  }

  window.tilescope_text = {
    shown,
    parse,
    /** What an answer of the server says. */
    read: async (answer) => parse(await answer.text()),
  };
})();
