"""Topics of tokens: exact Gibbs sampling of words' topics, given what documents prefer.

``documents`` holds the corpus, ``collapsed`` and ``cells`` are the two samplers, ``priors`` moves
the two concentrations, ``gibbs`` is latent Dirichlet allocation made of them, ``inference`` is for
new documents.
"""
