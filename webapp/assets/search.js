// What a typed text finds: all its words, in any order, whatever their case. Punctuation that labels
// are drawn with does not count at the ends of a word. The same as analyser/search.py.
(function () {
  'use strict';
  const DRAWN = '()[]{}<>,;:.…·→–—×|"\'`';

  function core(word) {
    let [from, to] = [0, word.length];
    while (from < to && DRAWN.includes(word[from])) from += 1;
    while (to > from && DRAWN.includes(word[to - 1])) to -= 1;
    return word.slice(from, to);
  }

  window.tilescope_search = {
    /** The words of a text in lower case; of a text of punctuation only, that. */
    words(text) {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const cores = words.map(core).filter(Boolean);
      return cores.length ? cores : words;
    },
    /** Whether each of the words is in the label; none fit anything. */
    fit(words, label) {
      const whole = label.toLowerCase();
      return words.every((word) => whole.includes(word));
    },
  };
})();
