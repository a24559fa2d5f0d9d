// Static content, built from data in one call (see webapp/components/markup.py).
(function () {
  'use strict';
  function build(tree) {
    const React = window.React;
    if (Array.isArray(tree)) return React.createElement(React.Fragment, null, ...tree.map(build));
    if (tree === null || typeof tree !== 'object') return tree;
    return React.createElement(tree.t, tree.p || null, ...(tree.c || []).map(build));
  }

  function Markup(props) {
    return window.React.useMemo(() => build(props.tree), [props.tree]);
  }

  // Data that callbacks exchange; nothing is drawn.
  const Store = () => null;

  window.tilescope_markup = {Markup, Store};
})();
