// Static content, built from data in one call (see webapp/components/markup.py).
(function () {
  'use strict';
  // A long path may break after its slashes, which no browser does by itself.
  function breakable(text) {
    const parts = typeof text === 'string' && text.length > 16 ? text.split(/(?<=\/)(?=.)/) : [text];
    if (parts.length < 2) return text;
    const {createElement, Fragment} = window.React;
    return createElement(Fragment, null, ...parts.flatMap((part, i) => i ? [createElement('wbr'), part] : [part]));
  }

  function build(tree) {
    const React = window.React;
    if (Array.isArray(tree)) return React.createElement(React.Fragment, null, ...tree.map(build));
    if (tree === null || typeof tree !== 'object') return breakable(tree);
    return React.createElement(tree.t, tree.p || null, ...(tree.c || []).map(build));
  }

  function Markup(props) {
    return window.React.useMemo(() => build(props.tree), [props.tree]);
  }

  // Data that callbacks exchange; nothing is drawn.
  const Store = () => null;

  window.tilescope_markup = {Markup, Store, breakable};
})();
