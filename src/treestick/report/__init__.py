"""What people look at: drawings of trees and the figures of the paper.

``layout`` says where things go, ``drawing`` draws one tree, ``prior_figures`` the paper's figures 1
and 2, ``saving`` writes a figure to a file. Matplotlib is imported when something is drawn.
"""
